package ojsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"
)

// Version is that of this package.
const Version = "0.2.0"

const (
	socketVariable   = "OJS_SOCKET"
	modeVariable     = "OJS_MODE"
	defaultStopGrace = 500 * time.Millisecond
	cutOffStatus     = 128 + int(syscall.SIGTERM)
	anyType          = "*"
)

// Handler does one job. What it returns is the job's result, nil for none; an error fails the job, unless it is a
// *Release. The context is done when the job is cancelled; its deadline is the job's.
type Handler func(ctx context.Context, job *Job) (any, error)

// Middleware makes a handler out of a handler, around which it does something.
type Middleware func(next Handler) Handler

// Options of a Worker. The zero value is right for most.
type Options struct {
	// Concurrency is the most jobs at once, where that is less than what ojs-init allows. 0: as many as it allows.
	Concurrency int
	// SocketPath is for tests; empty: $OJS_SOCKET.
	SocketPath string
	// IgnoreSignals leaves SIGTERM and SIGINT to the program.
	IgnoreSignals bool
	// StopGrace is how long handlers may take to end after SIGTERM, for ojs-init kills soon after it. 0: 500 ms; less
	// than 0: for ever.
	StopGrace time.Duration
	// Log is where the worker logs to; nil: the logger that was installed last, or else the standard package log.
	Log *Logger
}

// Worker has handlers, and runs them for the jobs that ojs-init gives it.
type Worker struct {
	options  Options
	stop     chan struct{}
	stopOnce sync.Once
	isUsed   atomic.Bool
	current  atomic.Pointer[session]

	mu         sync.Mutex
	handlers   map[string]registered
	middleware []Middleware
	chains     map[string]Handler
}

// registered is a handler, and the function that a backtrace names.
type registered struct {
	handler Handler
	origin  any
}

// New makes a worker. It panics when an option is out of range.
func New(options Options) *Worker {
	if options.Concurrency < 0 || options.Concurrency > maxConcurrency {
		panic(fmt.Sprintf("ojsworker: Options.Concurrency is %d; it is 1 to %d, or 0 for what ojs-init allows",
			options.Concurrency, maxConcurrency))
	}
	return &Worker{options: options, stop: make(chan struct{}), handlers: map[string]registered{}}
}

// Handle registers the handler of a job type; "*" is for all types that have none. It panics when the type is no
// name, has a handler already, or the worker runs.
func (w *Worker) Handle(kind string, handler Handler) {
	if handler == nil {
		panic(fmt.Sprintf("ojsworker: the handler of %q is nil", kind))
	}
	w.register(kind, handler, handler)
}

func (w *Worker) register(kind string, handler Handler, origin any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch _, isKnown := w.handlers[kind]; {
	case kind == "" || len(kind) > maxNameBytes || !utf8.ValidString(kind):
		panic(fmt.Sprintf("ojsworker: a job type has 1 to %d bytes of UTF-8; this has %d", maxNameBytes, len(kind)))
	case isKnown:
		panic(fmt.Sprintf("ojsworker: %q has a handler already", kind))
	case len(w.handlers) >= maxTypes:
		panic(fmt.Sprintf("ojsworker: more than %d job types; use %q", maxTypes, anyType))
	case w.chains != nil:
		panic(fmt.Sprintf("ojsworker: %q is registered too late: the worker runs, or Perform was called", kind))
	}
	w.handlers[kind] = registered{handler, origin}
}

// Use puts middleware around all handlers, also those that are registered later: the first one is the outermost. It
// panics when the worker runs.
func (w *Worker) Use(middleware ...Middleware) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chains != nil {
		panic("ojsworker: middleware is registered too late: the worker runs, or Perform was called")
	}
	for _, each := range middleware {
		if each == nil {
			panic("ojsworker: a middleware is nil")
		}
	}
	w.middleware = append(w.middleware, middleware...)
}

// prepare closes the registration: from now on handlers are only read.
func (w *Worker) prepare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chains != nil {
		return
	}
	w.chains = map[string]Handler{}
	for kind, entry := range w.handlers {
		chain := entry.handler
		for i := len(w.middleware) - 1; i >= 0; i-- {
			if chain = w.middleware[i](restarting(i, chain)); chain == nil {
				panic("ojsworker: a middleware has made a handler that is nil")
			}
		}
		w.chains[kind] = chain
	}
}

// restarting lets a middleware call what is inside of it again after it failed: see resume.enter.
func restarting(layer int, inside Handler) Handler {
	return func(ctx context.Context, job *Job) (any, error) {
		job.resume.enter(layer)
		return inside(ctx, job)
	}
}

// handlerFor is the handler of a type with all middleware, and the function that it is; nil if there is none.
func (w *Worker) handlerFor(kind string) (Handler, any) {
	if chain := w.chains[kind]; chain != nil {
		return chain, w.handlers[kind].origin
	}
	return w.chains[anyType], w.handlers[anyType].origin
}

// control is how a running session is asked to end.
type control struct {
	signals <-chan os.Signal
	stop    <-chan struct{}
	done    <-chan struct{}
}

// Run takes jobs until ojs-init, a signal, Stop or the context says that it is enough, and what is held is finished.
// When the context is done no more jobs are taken, and those that are held go on; its values are those of the
// handlers' contexts. A worker runs once.
//
// The errors are ErrNotUnderOjsInit, ErrConnectionLost, ErrProtocol, ErrStalled, ErrCutOff. The process has to end after
// Run: ojs-init judges it by its connection, which stays open until then. Main does all that.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.handlers) == 0 {
		return errors.New("the worker has no handler: register one with Handle before Run")
	}
	if w.isUsed.Swap(true) {
		return errors.New("the worker has run already: make another one in another process")
	}
	path := w.options.SocketPath
	if path == "" {
		path = os.Getenv(socketVariable)
	}
	if path == "" {
		switch mode := os.Getenv(modeVariable); mode {
		case "gateway", "exec", "none":
			return fmt.Errorf("%w: %s is not set, because ojs-init runs in mode %s: leave %s out, or set it to socket",
				ErrNotUnderOjsInit, socketVariable, mode, modeVariable)
		}
		return fmt.Errorf("%w: %s is not set; start the program with: ojs-init -- PROGRAM", ErrNotUnderOjsInit, socketVariable)
	}
	w.prepare()
	asked := &control{stop: w.stop, done: ctx.Done()}
	if !w.options.IgnoreSignals {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		asked.signals = signals
	}
	// A log that nobody reads is an error of a write, not the end; what a handler starts does not inherit this.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("%w: cannot connect to %s (%s): %v", ErrNotUnderOjsInit, path, socketVariable, err)
	}
	session := newSession(w, conn, ctx)
	w.current.Store(session)
	session.start()
	// Signals stay ours: the SIGTERM that ojs-init sends at the end may be late.
	return session.serve(asked)
}

// Main runs the worker and ends the process with a status other than 0 where that is right: 143 when a signal has cut
// off jobs, 1 for any other error, which is logged. When all is well it returns, so let main end then.
func (w *Worker) Main() {
	err := w.Run(context.Background())
	if err == nil {
		return
	}
	if errors.Is(err, ErrCutOff) {
		os.Exit(cutOffStatus)
	}
	w.logger().Error(err.Error())
	os.Exit(1)
}

// Stop lets Run end: no more jobs are taken, those that are held go on. Any goroutine may call it.
func (w *Worker) Stop() { w.stopOnce.Do(func() { close(w.stop) }) }

// State is running, quiet or terminate, as ojs-init says; "" before Run.
func (w *Worker) State() string {
	session := w.current.Load()
	if session == nil {
		return ""
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	return session.state
}

func (w *Worker) stopGrace() time.Duration {
	if w.options.StopGrace == 0 {
		return defaultStopGrace
	}
	return w.options.StopGrace
}

func (w *Worker) logger() *Logger {
	if w.options.Log != nil {
		return w.options.Log
	}
	if logger := installed.Load(); logger != nil {
		return logger
	}
	return plainLogger
}

// readyFrame says what we take.
func (w *Worker) readyFrame(concurrency int) []byte {
	ready := struct {
		Type        string   `json:"type"`
		Protocol    int      `json:"protocol"`
		Concurrency int      `json:"concurrency"`
		Types       []string `json:"types,omitempty"`
		Ping        bool     `json:"ping"`
		// Nothing is done at an ok: none is wanted.
		OK     bool   `json:"ok"`
		Client string `json:"client"`
	}{Type: "ready", Protocol: protocolVersion, Concurrency: concurrency, Ping: true,
		Client: "ojs-worker-go/" + Version + " (" + runtime.Version() + ")"}
	if w.handlers[anyType].handler == nil {
		for kind := range w.handlers {
			ready.Types = append(ready.Types, kind)
		}
		sort.Strings(ready.Types)
	}
	line, _ := json.Marshal(ready)
	return append(line, '\n')
}

// isFunction says whether a handler of any shape is there.
func isFunction(value any) bool {
	function := reflect.ValueOf(value)
	return function.Kind() == reflect.Func && !function.IsNil()
}
