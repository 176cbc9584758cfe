module example/worker

go 1.19

require ojsworker v0.2.0

replace ojsworker => ../../../clients/go
