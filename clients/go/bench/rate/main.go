// Command rate is a worker with an empty handler, to measure what the client costs.
package main

import (
	"context"

	ojsworker "ojs-init.example/ojsworker"
)

func main() {
	worker := ojsworker.New(ojsworker.Options{})
	worker.Handle("bench.noop", func(context.Context, *ojsworker.Job) (any, error) { return nil, nil })
	worker.Main()
}
