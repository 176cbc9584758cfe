// Command worker pretends to make reports: report.build [name, seconds].
package main

import (
	"context"
	"time"

	"ojsworker"
)

// Report is what a job asks for.
type Report struct {
	Name    string
	Seconds *float64 // may be missing
}

func build(ctx context.Context, job *ojsworker.Job, report Report) (map[string]string, error) {
	if report.Name == "" {
		return nil, ojsworker.Discardf("the first argument is the report's name")
	}
	seconds := 0.1
	if report.Seconds != nil {
		seconds = *report.Seconds
	}
	select { // pretends to build
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return map[string]string{"built": report.Name}, nil
	case <-ctx.Done():
		return nil, job.Err()
	}
}

func main() {
	ojsworker.InstallLog()
	worker := ojsworker.New(ojsworker.Options{})
	ojsworker.HandleTyped(worker, "report.build", build)
	worker.Main()
}
