// Package ojsworker is a worker for jobs of the Open Job Spec. It runs under ojs-init, which
// fetches the jobs and hands them over a Unix socket.
//
//	func main() {
//		worker := ojsworker.New(ojsworker.Options{})
//		worker.Handle("email.send", func(ctx context.Context, job *ojsworker.Job) (any, error) {
//			return nil, send(ctx, job.Args)
//		})
//		worker.Main()
//	}
//
// Start the program with: ojs-init -- ./worker
package ojsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Version is that of this package.
const Version = "0.1.0"

const (
	anyType        = "*"
	maxConcurrency = 10_000
	// giveUpAfter is how long PerformDelivery waits for a frame.
	giveUpAfter = time.Minute
)

// Handler does one job. Its result is anything that encoding/json takes, nil for none. An error
// fails the job; *Retry, *Discard and *Release say more exactly what becomes of it. The context is
// cancelled with the job, and its deadline is the job's.
type Handler func(ctx context.Context, job *Job) (any, error)

// Middleware makes a handler that does something around another one.
type Middleware func(next Handler) Handler

// Options of a Worker. The zero value is right for most.
type Options struct {
	// Concurrency is the most jobs at once, 1 to 10000; 0: as many as ojs-init allows, which also
	// bounds any other value.
	Concurrency int
	// Log is where the worker logs; nil: slog.Default(). Lines about a job have the attributes of
	// Fields.
	Log *slog.Logger
	// OnFailure is called once for each job that fails: for an error, a panic (*Panic), arguments
	// that do not fit (a *Discard of the type InvalidArgs), a *Retry, a *Discard, a timeout and a
	// type without a handler (a *Retry with the code handler_not_found). It is not called for jobs
	// that are given back.
	OnFailure func(ctx context.Context, job *Job, err error)
}

// Worker has handlers and runs them for the jobs that ojs-init sends. Register all of them before
// Run.
type Worker struct {
	options    Options
	handlers   map[string]Handler
	middleware []Middleware
}

// New makes a worker. It panics if an option is out of range.
func New(options Options) *Worker {
	if options.Concurrency < 0 || options.Concurrency > maxConcurrency {
		panic(fmt.Sprintf("ojsworker: Options.Concurrency is %d; it is 1 to %d, or 0 for what ojs-init allows",
			options.Concurrency, maxConcurrency))
	}
	return &Worker{options: options, handlers: map[string]Handler{}}
}

// Handle registers the handler of a job type; "*" is for all types that have none. It panics if
// the type is empty or has a handler, and if the handler is nil.
func (w *Worker) Handle(jobType string, handler Handler) {
	if handler == nil {
		panic(fmt.Sprintf("ojsworker: the handler of %q is nil; it is a "+
			"func(ctx context.Context, job *ojsworker.Job) (any, error)", jobType))
	}
	if w.handlers[jobType] != nil || jobType == "" {
		panic(fmt.Sprintf("ojsworker: the job type %q is empty or has a handler already", jobType))
	}
	w.handlers[jobType] = handler
}

// Use puts middleware around all handlers, also those that are registered later. The first one is
// the outermost.
func (w *Worker) Use(middleware ...Middleware) { w.middleware = append(w.middleware, middleware...) }

// chains returns the handlers with all middleware around them.
func (w *Worker) chains() map[string]Handler {
	chains := map[string]Handler{}
	for jobType, handler := range w.handlers {
		for i := len(w.middleware) - 1; i >= 0; i-- {
			handler = w.middleware[i](handler)
		}
		chains[jobType] = handler
	}
	return chains
}

// Run takes jobs until ojs-init shuts the worker down, SIGTERM or SIGINT comes, or the context is
// done. In each of these cases it takes no more jobs and returns once the held ones are finished:
// handlers are not cancelled by the context, and get its values.
//
// The errors are ErrNotUnderOjsInit, ErrConnectionLost and ErrProtocol. The process has to end
// after Run, because ojs-init judges it by its connection, which stays open until then. Main does
// all that.
func (w *Worker) Run(ctx context.Context) error {
	path := os.Getenv("OJS_SOCKET")
	if path == "" {
		return noSocket()
	}
	if len(w.handlers) == 0 {
		return errors.New("the worker has no handler: register one with Handle before Run")
	}
	// The signals stay ours after Run: the SIGTERM that ojs-init sends at the end may be late.
	asked, _ := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	// A log that nobody reads is an error of a write, not the end of the process. Programs that a
	// handler starts do not inherit this, as they would with signal.Ignore.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("%w: cannot connect to %s (OJS_SOCKET): %v", ErrNotUnderOjsInit, path, err)
	}
	s := newSession(ctx, w, conn)
	go s.read()
	context.AfterFunc(asked, s.drain)
	return <-s.over
}

// Main runs the worker. It logs an error of Run and ends the process with status 1; otherwise it
// returns, so let main end then.
func (w *Worker) Main() {
	if err := w.Run(context.Background()); err != nil {
		w.logger().Error("the worker ends: " + err.Error())
		os.Exit(1)
	}
}

func noSocket() error {
	hint := "Run it as: ojs-init -- ./" + filepath.Base(os.Args[0])
	if mode := os.Getenv("OJS_MODE"); slices.Contains([]string{"gateway", "exec", "none"}, mode) {
		hint = "ojs-init runs in mode " + mode + ": leave OJS_MODE out, or set it to socket"
	}
	return fmt.Errorf("%w: OJS_SOCKET is not set. %s", ErrNotUnderOjsInit, hint)
}

func (w *Worker) logger() *slog.Logger {
	logger := w.options.Log
	if logger == nil {
		logger = slog.Default()
	}
	return slog.New(LogHandler(logger.Handler()))
}

// Delivery is a job for PerformDelivery, and what happens while it runs.
type Delivery struct {
	// Type decides which handler gets the job.
	Type string
	// Args are anything that is JSON.
	Args []any
	// Attempt and MaxAttempts; the attempt is 1 if it is 0, and the number of attempts is unknown
	// if it is 0.
	Attempt, MaxAttempts int
	// Meta is the metadata of the job.
	Meta map[string]any
	// Checkpoint is what an earlier attempt saved, as Outcome.Checkpoint has it; nil: none.
	Checkpoint any
	// Timeout is that of the job, which is cancelled then; 0: none.
	Timeout time.Duration
	// StopIn shuts the worker down before the handler begins, and cancels the job after this time;
	// 0: no shutdown.
	StopIn time.Duration
	// Cancel is the reason of a cancel that comes after CancelAfter; "": none.
	Cancel      string
	CancelAfter time.Duration
}

// Outcome is what became of a job.
type Outcome struct {
	// Outcome is ack, fail or release.
	Outcome string
	// Result is that of an ack, nil if there is none.
	Result json.RawMessage
	// Error is that of a fail.
	Error *Failure
	// Reason is that of a release.
	Reason string
	// Checkpoint is the newest, for Delivery.Checkpoint of the next attempt; nil if there is none.
	Checkpoint json.RawMessage
	// Progress has the number of each call of Job.Progress.
	Progress []float64
}

// Perform runs a handler for a test, over the code that serves the socket: arguments and result go
// through JSON, with middleware, errors, panics and unknown types as under ojs-init. The error is
// about the test: arguments that are no JSON, or a handler that does nothing for a minute. That of
// the job is in the outcome.
func (w *Worker) Perform(jobType string, args ...any) (*Outcome, error) {
	return w.PerformDelivery(Delivery{Type: jobType, Args: args})
}

// PerformDelivery is Perform for a job with a timeout, a checkpoint, a cancel or a shutdown.
func (w *Worker) PerformDelivery(d Delivery) (*Outcome, error) {
	job := map[string]any{"id": "test-job", "type": d.Type, "attempt": max(d.Attempt, 1), "max_attempts": d.MaxAttempts,
		"args": d.Args, "meta": d.Meta, "timeout_ms": d.Timeout.Seconds() * 1000}
	delivery, err := encode(map[string]any{"type": "job", "job": job, "checkpoint": d.Checkpoint})
	if err != nil {
		return nil, fmt.Errorf("the job is no JSON: %w", err)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	write := func(line any) { _ = json.NewEncoder(ours).Encode(line) }
	go newSession(context.Background(), w, theirs).read()
	write(&frame{Type: "hello", Protocol: protocolVersion, Concurrency: 1})
	if d.StopIn > 0 {
		left := d.StopIn.Seconds() * 1000
		write(&frame{Type: "lifecycle", State: json.RawMessage(`"terminate"`), RemainingMS: &left})
		d.Cancel, d.CancelAfter = "shutdown", d.StopIn
	}
	write(json.RawMessage(delivery))
	if d.Cancel != "" {
		time.AfterFunc(d.CancelAfter, func() { write(&frame{Type: "cancel", JobID: "test-job", Reason: d.Cancel}) })
	}
	return collect(ours)
}

// collect reads what the worker sends, until its answer.
func collect(conn net.Conn) (*Outcome, error) {
	o := &Outcome{}
	for frames := json.NewDecoder(conn); ; {
		var got frame
		_ = conn.SetReadDeadline(time.Now().Add(giveUpAfter))
		if err := frames.Decode(&got); err != nil {
			return nil, fmt.Errorf("the handler has not ended: %w", err)
		}
		switch got.Type {
		case "progress":
			o.Progress = append(o.Progress, *got.Progress)
		case "checkpoint":
			o.Checkpoint = got.State
		case "ack", "fail", "release":
			o.Outcome, o.Result, o.Error, o.Reason = got.Type, got.Result, got.Error, got.Reason
			return o, nil
		}
	}
}
