// Command email sends mail, or pretends to: ojs-init -- ./email
package main

import (
	"context"
	"time"

	"ojsworker"
)

func send(ctx context.Context, job *ojsworker.Job, mail struct{ To, Body string }) (map[string]bool, error) {
	select { // pretends to send
	case <-time.After(time.Duration(job.MetaNumber("sleep_ms")) * time.Millisecond):
		return map[string]bool{"sent": true}, nil
	case <-ctx.Done():
		return nil, job.Err() // the job goes back to its queue
	}
}

func main() {
	worker := ojsworker.New(ojsworker.Options{})
	ojsworker.HandleTyped(worker, "email.send", send)
	worker.Main()
}
