module example/email

go 1.21

require ojs-init.example/ojsworker v0.1.0

replace ojs-init.example/ojsworker => ../..
