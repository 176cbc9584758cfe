package ojsworker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What Run and the methods of a Job return; test for them with errors.Is.
var (
	// ErrNotUnderOjsInit: there is no ojs-init to take jobs from.
	ErrNotUnderOjsInit = errors.New("not under ojs-init")
	// ErrConnectionLost: ojs-init has closed the connection. The process must end; nothing reconnects.
	ErrConnectionLost = errors.New("ojs-init has closed the connection")
	// ErrProtocol: ojs-init speaks a version of the protocol that this package does not know.
	ErrProtocol = errors.New("ojs-init speaks another protocol")
	// ErrStalled: ojs-init has not read for 10 s; the frame was not sent, or only in part.
	ErrStalled = errors.New("ojs-init does not read")
	// ErrCutOff: a signal came, and handlers had not ended within Options.StopGrace. Their jobs are unanswered; the
	// process should end with 143.
	ErrCutOff = errors.New("jobs were cut off by a signal")
	// ErrAnswered: the job has its answer, nothing more can be said about it.
	ErrAnswered = errors.New("the job was answered already")
)

// Retry is the error of a handler that wants its job to fail in words of its own. The backend's retry policy decides
// about the next attempt.
type Retry struct {
	// Message is for a person; if it is empty, the message of Cause.
	Message string
	// After is how long the next attempt should wait. It goes to the backend as details.retry_after_ms, in whole
	// milliseconds, and the backend's retry policy decides whether it counts.
	After time.Duration
	// Code is short and stable; your own begin with "x_". Empty: "handler_error".
	Code string
	// Type is the error's class. Empty: that of Cause, or "Retry".
	Type string
	// Details is anything more that is JSON.
	Details map[string]any
	// Cause is the error behind it, whose backtrace is reported; may be nil.
	Cause error
}

// Retryf makes a Retry with a message; an error that %w names becomes its Cause.
func Retryf(format string, values ...any) *Retry {
	err := fmt.Errorf(format, values...)
	return &Retry{Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Error is the message.
func (e *Retry) Error() string { return messageOf(e.Message, e.Cause, "Retry") }

// Unwrap is the cause.
func (e *Retry) Unwrap() error { return e.Cause }

// Discard is the error of a handler whose job fails for good: another attempt would not help.
type Discard struct {
	// Message is for a person; if it is empty, the message of Cause.
	Message string
	// Code is short and stable; your own begin with "x_". Empty: "handler_error".
	Code string
	// Type is the error's class. Empty: that of Cause, or "Discard".
	Type string
	// Details is anything more that is JSON.
	Details map[string]any
	// Cause is the error behind it, whose backtrace is reported; may be nil.
	Cause error
}

// Discardf makes a Discard with a message; an error that %w names becomes its Cause.
func Discardf(format string, values ...any) *Discard {
	err := fmt.Errorf(format, values...)
	return &Discard{Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Error is the message.
func (e *Discard) Error() string { return messageOf(e.Message, e.Cause, "Discard") }

// Unwrap is the cause.
func (e *Discard) Unwrap() error { return e.Cause }

// Release is the error of a handler that gives its job back unprocessed, with no failure recorded where the backend
// can do that.
type Release struct {
	// Reason is for the log.
	Reason string
	// After is how long ojs-init holds the job before it goes back: 30 s at most.
	After time.Duration
}

// Error is the reason.
func (e *Release) Error() string { return messageOf(e.Reason, nil, "released") }

// Cancelled says why a job is cancelled; Job.Err gives it. It is a context.Canceled for errors.Is.
type Cancelled struct {
	// Reason is shutdown, timeout, cancelled or lost, or one that a later ojs-init knows.
	Reason string
}

// Error names the reason.
func (e *Cancelled) Error() string { return "the job is cancelled: " + e.Reason }

// Unwrap is context.Canceled.
func (e *Cancelled) Unwrap() error { return context.Canceled }

func messageOf(message string, cause error, otherwise string) string {
	if message == "" && cause != nil {
		message = cause.Error()
	}
	if message == "" {
		message = otherwise
	}
	return message
}

// verdictIn finds the outermost Retry, Discard or Release in an error; nil if there is none.
func verdictIn(err error) error {
	switch e := err.(type) {
	case *Retry, *Discard, *Release:
		return e
	case interface{ Unwrap() error }:
		return verdictIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if found := verdictIn(inner); found != nil {
				return found
			}
		}
	}
	return nil
}
