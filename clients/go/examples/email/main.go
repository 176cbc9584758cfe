// Command email sends mail, or pretends to: ojs-init -- ./email
package main

import (
	"context"
	"encoding/json"
	"time"

	ojsworker "ojs-init.example/ojsworker"
)

func send(_ context.Context, job *ojsworker.Job, mail struct{ To, Body string }) (map[string]bool, error) {
	ms, _ := job.Meta["sleep_ms"].(json.Number)
	pause, _ := ms.Int64()
	// Pretends to send. After a cancel the error gives the job back to its queue.
	if err := job.Sleep(time.Duration(pause) * time.Millisecond); err != nil {
		return nil, err
	}
	return map[string]bool{"sent": true}, nil
}

func main() {
	worker := ojsworker.New(ojsworker.Options{})
	ojsworker.HandleTyped(worker, "email.send", send)
	worker.Main()
}
