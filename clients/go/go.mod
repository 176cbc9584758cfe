module ojsworker

go 1.19
