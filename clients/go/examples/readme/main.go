// Command readme is the first worker of the README.
package main

import (
	"context"
	"time"

	ojsworker "ojs-init.example/ojsworker"
)

type Mail struct{ To, Body string }

func send(ctx context.Context, job *ojsworker.Job, mail Mail) (map[string]any, error) {
	if mail.To == "" {
		return nil, &ojsworker.Discard{Message: "no address"} // fails for good
	}
	if err := job.Sleep(100 * time.Millisecond); err != nil {
		return nil, err // cancelled: the job goes back to its queue
	}
	return map[string]any{"sent": true}, nil
}

func main() {
	worker := ojsworker.New(ojsworker.Options{})
	ojsworker.HandleTyped(worker, "email.send", send)
	worker.Main()
}
