module ojs-init.example/ojsworker

go 1.21
