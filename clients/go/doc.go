// Package ojsworker is a worker for the Open Job Spec that runs under ojs-init.
//
// ojs-init talks to the backend: it fetches, heartbeats, acknowledges and shuts down. This package takes jobs from it
// over the Unix socket $OJS_SOCKET and runs a function of yours for each, in a goroutine of its own:
//
//	worker := ojsworker.New(ojsworker.Options{})
//	worker.Handle("email.send", func(ctx context.Context, job *ojsworker.Job) (any, error) {
//		return map[string]bool{"sent": true}, nil
//	})
//	worker.Main()
//
// Start it with: ojs-init -- ./program. The standard library is all it needs.
//
// A handler's context is done when the job is cancelled; Job.CancelReason says why. Errors fail the job; Retry, Discard
// and Release are errors that say more. HandleTyped has arguments and results of your own types. Step, Iterate,
// IterateKeyed and IterateFrom are for jobs that go on where an earlier attempt stopped. Worker.Perform runs a handler
// in a test; the package ojstest starts a development server.
package ojsworker
