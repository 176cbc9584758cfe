package ojsworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"
)

// Errors of Run and of the methods of a Job; test for them with errors.Is.
var (
	// ErrNotUnderOjsInit means that there is no socket to take jobs from.
	ErrNotUnderOjsInit = errors.New("not under ojs-init")
	// ErrConnectionLost means that ojs-init closed the connection while jobs were held. The
	// process must end.
	ErrConnectionLost = errors.New("ojs-init closed the connection")
	// ErrProtocol means that ojs-init speaks a version of the protocol that this package does not
	// know.
	ErrProtocol = errors.New("ojs-init speaks another protocol")
	// ErrAnswered means that the job has its answer, so ojs-init takes nothing more for it.
	ErrAnswered = errors.New("the job is answered")
)

// Retry fails the job and lets the backend try it again, if its retry policy has attempts left.
type Retry struct {
	// Message is for a person; empty: the message of Cause.
	Message string
	// After is the wish for the pause before the next attempt. It is sent as
	// details.retry_after_ms, rounded up to milliseconds; the retry policy decides.
	After time.Duration
	// Code is short and stable; your own begin with "x_". Empty: "handler_error".
	Code string
	// Type is the class of the error. Empty: that of Cause, or "ojsworker.Retry".
	Type string
	// Details is anything more that is JSON.
	Details map[string]any
	// Cause is the error behind it, or nil.
	Cause error
}

// Discard fails the job for good.
type Discard struct {
	// Message is for a person; empty: the message of Cause.
	Message string
	// Code is short and stable; your own begin with "x_". Empty: "handler_error".
	Code string
	// Type is the class of the error. Empty: that of Cause, or "ojsworker.Discard".
	Type string
	// Details is anything more that is JSON.
	Details map[string]any
	// Cause is the error behind it, or nil.
	Cause error
}

// Release gives the job back to its queue unprocessed, with no failure recorded where the backend
// can do that.
type Release struct {
	// Reason is for the log.
	Reason string
	// After is how long ojs-init holds the job before it goes back, 30 s at most.
	After time.Duration
}

// Cancelled is the cause of a cancelled context: see context.Cause and Job.Err. errors.Is finds
// context.Canceled in it.
type Cancelled struct {
	// Reason is shutdown, timeout, cancelled or lost. A later ojs-init may have others.
	Reason string
}

// Panic is what Options.OnFailure gets for a handler that panicked.
type Panic struct {
	// Value is the argument of the panic.
	Value any
	// Stack has one line for each call, innermost first.
	Stack []string
}

func (e *Retry) Error() string     { return messageOf(e.Message, e.Cause) }
func (e *Discard) Error() string   { return messageOf(e.Message, e.Cause) }
func (e *Release) Error() string   { return e.Reason }
func (e *Cancelled) Error() string { return "the job is cancelled: " + e.Reason }
func (e *Panic) Error() string     { return fmt.Sprint(e.Value) }

// Unwrap returns the cause.
func (e *Retry) Unwrap() error { return e.Cause }

// Unwrap returns the cause.
func (e *Discard) Unwrap() error { return e.Cause }

// Unwrap returns context.Canceled.
func (e *Cancelled) Unwrap() error { return context.Canceled }

func messageOf(message string, cause error) string {
	if message == "" && cause != nil {
		return cause.Error()
	}
	return message
}

// Failure is an error as the backend gets it. ojs-init cuts what is too long.
type Failure struct {
	// ojs-init reads the beginning of a line that is too long, so what decides comes first.
	Retryable bool           `json:"retryable"`
	Code      string         `json:"code"`
	Type      string         `json:"type"`
	Message   string         `json:"message"`
	Backtrace []string       `json:"backtrace,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
}

// outcome is an error by which a handler decides what becomes of its job.
type outcome interface {
	error
	// failure returns what a fail reports, and the error behind it.
	failure() (*Failure, error)
}

func (e *Retry) failure() (*Failure, error) {
	details := e.Details
	if e.After > 0 {
		details = map[string]any{"retry_after_ms": milliseconds(e.After)}
		maps.Copy(details, e.Details)
	}
	return &Failure{Code: e.Code, Type: e.Type, Retryable: true, Details: details}, e.Cause
}

func (e *Discard) failure() (*Failure, error) {
	return &Failure{Code: e.Code, Type: e.Type, Details: e.Details}, e.Cause
}

func (e *Release) failure() (*Failure, error) { return nil, nil }

// conclude makes the answer of a job whose handler has ended, and logs its error.
func (s *session) conclude(job *Job, result any, err error) (answer *frame) {
	defer func() {
		if recover() != nil {
			mistake := &Failure{Code: "handler_error", Retryable: true, Message: fmt.Sprintf(
				"a method of the result (%T) or of the error (%T), or Options.OnFailure, panicked", result, err)}
			s.logFailure(job, slog.LevelError, "a panic while the job was answered", mistake)
			if err == nil {
				answer = &frame{Type: "ack"}
			} else if answer == nil {
				answer = &frame{Type: "fail", Error: mistake}
			}
		}
	}()
	if err == nil {
		return s.ack(job, result)
	}
	job.resume.saveBeforeEnd(job)
	reason, decided := job.CancelReason(), outcome(nil)
	errors.As(err, &decided)
	if release, ok := decided.(*Release); ok {
		return &frame{Type: "release", Reason: release.Reason, AfterMS: milliseconds(release.After)}
	}
	failure := failureOf(job, err, decided)
	switch {
	case decided != nil:
		// The handler says what is wrong, so there is no mistake to look for.
	case reason == "" || errors.As(err, new(*Panic)):
		level := slog.LevelError
		if job.Attempt < job.MaxAttempts {
			level = slog.LevelWarn
		}
		s.logFailure(job, level, "the job failed", failure)
	default:
		// The handler gave up because of the cancel.
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			s.logFailure(job, slog.LevelWarn, "the handler returned an error after the cancel of its job", failure)
		}
		if reason != "timeout" {
			return &frame{Type: "release", Reason: reason}
		}
		failure = &Failure{Message: "the job took longer than its timeout", Code: "timeout", Type: "Timeout", Retryable: true}
	}
	answer = &frame{Type: "fail", Error: failure}
	if hook := s.options.OnFailure; hook != nil {
		hook(job.ctx, job, err)
	}
	return answer
}

func (s *session) ack(job *Job, result any) *frame {
	if result == nil || result == any(None{}) {
		return &frame{Type: "ack"}
	}
	text, err := encode(result)
	if err == nil {
		return &frame{Type: "ack", Result: text}
	}
	// The work is done, so a failure would do it again. The error may quote the value, its class
	// does not.
	s.log.ErrorContext(job.ctx, "the job is done without its result, which is no JSON", "class", fmt.Sprintf("%T", result))
	return &frame{Type: "ack"}
}

// failureOf describes an error; decided is the Retry or Discard in it, nil if there is none.
func failureOf(job *Job, err error, decided outcome) *Failure {
	failure, cause := &Failure{Retryable: true}, err
	if decided != nil {
		failure, cause = decided.failure()
	}
	if _, err := encode(failure.Details); err != nil {
		failure.Details = nil
	}
	// Sprint instead of Error: it survives a method that panics.
	failure.Message = fmt.Sprint(err)
	if failure.Code == "" {
		failure.Code = "handler_error"
	}
	if cause == nil {
		cause = decided
	} else if panicked := (*Panic)(nil); errors.As(cause, &panicked) {
		failure.Backtrace = panicked.Stack
	} else {
		// An error of Go does not know where it arose.
		failure.Backtrace = []string{"returned by the handler of " + job.Type}
	}
	if failure.Type == "" {
		failure.Type = className(cause)
	}
	return failure
}

// className is the type of an error without the wrappers of fmt.Errorf.
func className(err error) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(name, "fmt.") {
		return className(inner)
	}
	return name
}

// milliseconds rounds up.
func milliseconds(pause time.Duration) int64 {
	return int64((pause + time.Millisecond - 1) / time.Millisecond)
}
