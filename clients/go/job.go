package ojsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"
)

// Job is what a handler gets. Its methods may be called from any goroutine.
type Job struct {
	// ID is the same in each delivery of the job.
	ID string `json:"id"`
	// Type decides which handler gets it.
	Type string `json:"type"`
	// Queue is the queue of the job; "default" if the backend does not say.
	Queue string `json:"queue"`
	// Attempt is the number of this attempt as the backend counts (some begin with 0); -1 if it
	// does not say.
	Attempt int `json:"attempt"`
	// MaxAttempts is how many attempts the backend makes; 0 if it does not say.
	MaxAttempts int `json:"max_attempts"`
	// Args are the arguments. Numbers are json.Number and so exact; HandleTyped and Bind make your
	// own types of them.
	Args []any `json:"args"`
	// Meta is the metadata: trace context, tenant and other things that travel with the job.
	Meta map[string]any `json:"meta"`
	// Traceparent is the W3C context of ojs-init's span of the job, the parent of the handler's own
	// spans; without one that of the producer (Meta); "" if there is neither.
	Traceparent string `json:"-"`

	raw      json.RawMessage
	rawArgs  json.RawMessage
	deadline time.Time
	session  *session
	ctx      context.Context
	cancel   context.CancelCauseFunc
	resume   resume

	// mu keeps anything about the job from being sent behind its answer.
	mu         sync.Mutex
	isAnswered bool
}

// newJob reads an envelope; nil if it has no id. Fields of a wrong type count as absent.
func newJob(s *session, raw, checkpoint json.RawMessage, traceparent string) *Job {
	job := &Job{Queue: "default", Attempt: -1, Args: []any{}, Meta: map[string]any{}, raw: raw, session: s}
	var timeout, timeoutMS float64
	// Not a struct: encoding/json would take a field "ID" for "id".
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	for name, into := range map[string]any{"id": &job.ID, "type": &job.Type, "queue": &job.Queue, "attempt": &job.Attempt,
		"max_attempts": &job.MaxAttempts, "args": &job.Args, "meta": &job.Meta, "timeout": &timeout, "timeout_ms": &timeoutMS} {
		if text := fields[name]; !isNull(text) {
			_ = decode(text, into)
		}
	}
	if job.ID == "" {
		s.logLater(slog.LevelWarn, "a job of ojs-init is ignored: it has no id")
		return nil
	}
	if job.Traceparent = traceparent; traceparent == "" {
		job.Traceparent, _ = job.Meta["traceparent"].(string)
	}
	job.rawArgs = fields["args"]
	job.resume.load(checkpoint)
	ctx, cancel := context.WithCancelCause(context.WithValue(s.values, jobKey{}, job))
	job.ctx, job.cancel = ctx, cancel
	if timeoutMS <= 0 {
		timeoutMS = 1000 * timeout
	}
	if timeoutMS > 0 {
		// 1e12 ms fits into a Duration.
		deadline := time.Now().Add(time.Duration(min(timeoutMS, 1e12)) * time.Millisecond)
		// ojs-init cancels the job at about the same time.
		ctx, stop := context.WithDeadlineCause(ctx, deadline, &Cancelled{Reason: "timeout"})
		job.ctx = ctx
		job.cancel = func(cause error) {
			cancel(cause)
			stop()
		}
	}
	return job
}

type jobKey struct{}

// FromContext returns the job of a handler's context, or of one made from it; nil if there is
// none.
func FromContext(ctx context.Context) *Job {
	job, _ := ctx.Value(jobKey{}).(*Job)
	return job
}

// Raw returns the envelope as the backend sent it. Do not change it.
func (j *Job) Raw() json.RawMessage { return j.raw }

// IsLastAttempt says whether a failure now is for good, because max_attempts is reached. It is
// false where the backend does not send attempt and max_attempts.
func (j *Job) IsLastAttempt() bool { return j.MaxAttempts > 0 && j.Attempt >= j.MaxAttempts }

// Deadline returns when the job is cancelled for its timeout; false if it has none.
func (j *Job) Deadline() (time.Time, bool) { return j.ctx.Deadline() }

// Err returns a *Cancelled once the job is cancelled, nil before. A handler that returns it gets
// the right answer.
func (j *Job) Err() error { return context.Cause(j.ctx) }

// CancelReason returns why the job is cancelled: shutdown, timeout, cancelled or lost; "" if it is
// not.
func (j *Job) CancelReason() string {
	if cancelled, ok := context.Cause(j.ctx).(*Cancelled); ok {
		return cancelled.Reason
	}
	return ""
}

// Sleep waits for the time, or until the job is cancelled: then it returns Err. time.Sleep would
// not notice a cancel.
func (j *Job) Sleep(pause time.Duration) error {
	ctx, stop := context.WithTimeout(j.ctx, pause)
	defer stop()
	<-ctx.Done()
	return j.Err()
}

// Stopping returns a channel that is closed when ojs-init begins to shut the worker down. The job
// may go on until it is cancelled.
func (j *Job) Stopping() <-chan struct{} { return j.session.stopping }

// Remaining returns the time until ojs-init cancels what is left; false while the worker is not
// shut down.
func (j *Job) Remaining() (time.Duration, bool) {
	j.session.mu.Lock()
	defer j.session.mu.Unlock()
	return time.Until(j.session.stopsAt), !j.session.stopsAt.IsZero()
}

// LastCheckpoint stores in into what an earlier attempt saved with Checkpoint; false if there is
// nothing.
func (j *Job) LastCheckpoint(into any) (bool, error) {
	if isNull(j.resume.loaded) {
		return false, nil
	}
	return true, decode(j.resume.loaded, into)
}

// Heartbeat tells the backend now that the job is alive. ojs-init sends heartbeats by itself, so
// this is seldom needed.
func (j *Job) Heartbeat() error { return j.send(&frame{Type: "heartbeat"}, false) }

// Progress reports how far the job is, from 0 to 1, with a message ("" for none) and data that is
// JSON (nil for none). Send as often as you like: ojs-init passes on the newest, at most one a
// second.
func (j *Job) Progress(progress float64, message string, data any) error {
	progress = max(0, min(1, progress))
	return j.send(&frame{Type: "progress", Progress: &progress, Message: message, Data: data}, false)
}

// Checkpoint saves where the next attempt goes on; it gets the state by LastCheckpoint. Once
// Checkpoint has returned nil, ojs-init has the state and saves it at the backend, even if this
// process crashes.
func (j *Job) Checkpoint(state any) error {
	text, err := encode(state)
	if err != nil {
		return err
	}
	j.resume.mu.Lock()
	defer j.resume.mu.Unlock()
	j.resume.saved.State = text
	return j.resume.save(j)
}

// send writes a frame about the job, unless its answer was written before.
func (j *Job) send(about *frame, isAnswer bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isAnswered {
		return ErrAnswered
	}
	j.isAnswered = isAnswer
	about.JobID = j.ID
	line, err := encode(about)
	if err != nil {
		return err
	}
	// ojs-init closes the connection after three frames that are too long, but reads the beginning
	// of any answer.
	if most := j.session.maxFrame.Load(); most > 0 && int64(len(line)) > most && !isAnswer {
		message := fmt.Sprintf("the frame of a %s has %d bytes, and ojs-init takes %d at most (worker.max_frame)",
			about.Type, len(line), most)
		if about.Type == "checkpoint" {
			return discard("CheckpointTooLarge", "", "%s", message)
		}
		return errors.New(message)
	}
	return j.session.write(line)
}

// None is the Result of a typed handler or step that has none, and the Args of a handler that
// takes none.
type None struct{}

// MarshalJSON returns null.
func (None) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// HandleTyped registers a handler whose arguments and result have types of their own.
//
// If Args is a struct, its exported fields take the arguments in their order, and fields at the
// end that are pointers may be missing. A job whose only argument is an object fills a struct of
// two or more fields by name, as encoding/json does. A slice takes all arguments, any other type
// the only one. Arguments that do not fit fail the job for good: type InvalidArgs, code
// invalid_args.
//
// Result is anything that encoding/json takes; None if there is none. HandleTyped panics as Handle
// does, and for types that JSON cannot have.
func HandleTyped[Args, Result any](w *Worker, jobType string,
	handler func(ctx context.Context, job *Job, args Args) (Result, error)) {
	if handler == nil || !fitsJSON(reflect.ValueOf(new(Args)).Elem()) || !fitsJSON(reflect.ValueOf(new(Result)).Elem()) {
		panic(fmt.Sprintf("ojsworker: the handler of %q is nil, or has a type without exported fields or that JSON cannot have: %T; "+
			"it is, for example, a func(ctx context.Context, job *ojsworker.Job, args struct{ To, Body string }) (string, error)",
			jobType, handler))
	}
	w.Handle(jobType, func(ctx context.Context, job *Job) (any, error) {
		var args Args
		if err := bind(job.rawArgs, reflect.ValueOf(&args).Elem()); err != nil {
			return nil, err
		}
		return handler(ctx, job, args)
	})
}

// fitsJSON is false for types that JSON cannot have, and for structs of which it has nothing.
func fitsJSON(value reflect.Value) bool {
	text, err := encode(value.Interface())
	if value.Kind() == reflect.Struct && value.NumField() > 0 && len(exported(value)) == 0 && string(text) == "{}" {
		return false
	}
	return !errors.As(err, new(*json.UnsupportedTypeError))
}

// bind stores all arguments in one value, as HandleTyped says.
func bind(rawArgs json.RawMessage, target reflect.Value) error {
	args := []json.RawMessage{}
	if !isNull(rawArgs) && json.Unmarshal(rawArgs, &args) != nil {
		return discard("InvalidArgs", "invalid_args", "args: expected an array, got %s", kindOf(rawArgs))
	}
	targets, least := []reflect.Value{target}, 1
	switch t := target.Type(); {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		target.Set(reflect.MakeSlice(t, len(args), len(args)))
		targets, least = nil, len(args)
		for i := range args {
			targets = append(targets, target.Index(i))
		}
	case t.Kind() == reflect.Struct:
		fields := exported(target)
		// A struct like time.Time has fields of its own and is one argument.
		isOne := len(fields) == 0 && t.NumField() > 0
		isByName := len(fields) > 1 && len(args) == 1 && kindOf(args[0]) == "object"
		if isOne || isByName {
			break
		}
		targets, least = fields, len(fields)
		for least > 0 && fields[least-1].Kind() == reflect.Pointer {
			least--
		}
	}
	if len(args) < least || len(args) > len(targets) {
		return discard("InvalidArgs", "invalid_args", "args: expected %d to %d arguments, got %d", least, len(targets), len(args))
	}
	for i, text := range args {
		if err := bindOne(fmt.Sprintf("args[%d]", i), text, targets[i]); err != nil {
			return err
		}
	}
	return nil
}

func bindOne(where string, text json.RawMessage, target reflect.Value) error {
	expected, got := target.Type(), kindOf(text)
	err := decode(text, target.Addr().Interface())
	if got == "null" && err == nil {
		// For null encoding/json leaves a string or a number as it is.
		if back, err := encode(target.Interface()); err == nil && isNull(back) {
			return nil
		}
	} else if err == nil {
		return nil
	}
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		if mismatch.Field != "" {
			where += "." + mismatch.Field
		}
		// Value may be "number 1.5": a message must not have the value.
		got, _, _ = strings.Cut(mismatch.Value, " ")
		expected = mismatch.Type
	}
	return discard("InvalidArgs", "invalid_args", "%s: expected %v, got %s", where, expected, got)
}

// exported returns the fields of a struct that take arguments.
func exported(value reflect.Value) (fields []reflect.Value) {
	for i := 0; i < value.NumField(); i++ {
		if value.Type().Field(i).IsExported() {
			fields = append(fields, value.Field(i))
		}
	}
	return fields
}

func kindOf(text json.RawMessage) string {
	kinds := map[byte]string{'"': "string", '{': "object", '[': "array", 't': "bool", 'f': "bool", 'n': "null"}
	if kind, ok := kinds[text[0]]; ok {
		return kind
	}
	return "number"
}
