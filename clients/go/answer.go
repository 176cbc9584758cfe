package ojsworker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// failure is what the backend is told about an error.
type failure struct {
	Message   string         `json:"message"`
	Code      string         `json:"code"`
	Type      string         `json:"type,omitempty"`
	Retryable bool           `json:"retryable"`
	Details   map[string]any `json:"details,omitempty"`
	Backtrace []string       `json:"backtrace,omitempty"`
}

func failFrame(rawID []byte, failed *failure) []byte {
	text, err := encode(failed, maxDepth-1)
	if err != nil {
		text = []byte(`{"message":"the error cannot be reported","code":"handler_error","retryable":true}`)
	}
	return frame("fail", rawID, field{"error", text})
}

// whyNot says what is wrong with an error whose methods panic.
func whyNot(err error) string {
	if value := reflect.ValueOf(err); value.Kind() == reflect.Pointer && value.IsNil() {
		return fmt.Sprintf("the handler returned a nil %T as its error, which is not nil; return nil itself", err)
	}
	return fmt.Sprintf("a method of the handler's error panics, a %T", err)
}

// answerTo makes the one answer of a job whose handler has ended.
func (s *session) answerTo(job *Job, result any, err error) (kind string, line []byte) {
	given := err
	defer func() {
		if value := recover(); value != nil { // in a method of an error of the program's own
			message := "the answer cannot be made: " + whyNot(given)
			s.log.of(job).Error(fmt.Sprintf("%s (%T)", message, value))
			failed := &failure{Message: message, Code: "handler_error", Retryable: true}
			kind, line = "fail", failFrame(job.rawID, failed)
		}
	}()
	if ended := job.resume.endedBy(); ended != nil && (verdictIn(err) == nil || errors.Is(err, ended)) {
		// Between two rows or steps; the handler has made something else of that, but is not through with them.
		s.noteIfOwn(job, err, ended)
		err = ended
	}
	_, isPanic := err.(*panicError)
	if err == nil {
		if line, err = s.ackFrame(job, result); err == nil {
			return "ack", line
		}
	}
	if job.CancelReason() != "lost" {
		// Of a lost job the checkpoint is another worker's by now.
		job.resume.saveBeforeEnd(job)
	}
	verdict := verdictIn(err)
	if reason := job.CancelReason(); reason != "" && verdict == nil && !isPanic {
		// It has given up because of the cancel.
		s.noteIfOwn(job, err, nil)
		if reason == "timeout" {
			message := "the job took longer than it may: " + messageFrom(err)
			verdict = &Retry{Message: message, Code: "timeout", Type: "Timeout"}
			err = verdict
		} else {
			verdict = &Release{Reason: reason}
		}
	}
	if release, ok := verdict.(*Release); ok {
		var fields []field
		if release.Reason != "" {
			fields = append(fields, field{"reason", quoted(clean(release.Reason, 1000))})
		}
		if release.After > 0 {
			fields = append(fields, field{"after_ms", strconv.AppendInt(nil, wholeMilliseconds(release.After), 10)})
		}
		return "release", frame("release", job.rawID, fields...)
	}
	failed := s.describe(job, err, verdict)
	if !isInOwnWords(verdict) {
		level := LevelError
		if failed.Retryable && job.hasMoreAttempts() {
			level = LevelWarn
		}
		s.log.of(job).log(level, "the job failed", failed)
	}
	line = failFrame(job.rawID, failed)
	if !s.fits(line) {
		s.log.of(job).Error(fmt.Sprintf("details and backtrace are dropped: the report has %d bytes", len(line)))
		failed.Details, failed.Backtrace = nil, nil
		failed.Message = clean(failed.Message, 200)
		line = failFrame(job.rawID, failed)
	}
	return "fail", line
}

// noteIfOwn logs an error that does not decide about its job, unless it is the end of the handler on its way out: it may
// be a mistake, and must not vanish. ended is what ended the steps and rows of the job, or nil.
func (s *session) noteIfOwn(job *Job, err, ended error) {
	if err == nil || ended != nil && errors.Is(err, ended) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	s.log.of(job).log(LevelWarn, "the handler was ended, and the error that it returned then does not count",
		s.describe(job, err, nil))
}

// ownTypes are those of errors that the library makes itself.
var ownTypes = map[string]bool{
	"InvalidResult": true, "InvalidArgs": true, "StepsChanged": true, "CheckpointTooLarge": true, "WrongUse": true}

// isInOwnWords is true where the handler itself has said why the job failed: there is no mistake to look for.
func isInOwnWords(verdict error) bool {
	switch e := verdict.(type) {
	case *Retry:
		return e.Cause == nil
	case *Discard:
		return e.Cause == nil && !ownTypes[e.Type]
	}
	return false
}

func (s *session) ackFrame(job *Job, result any) ([]byte, error) {
	if result == nil || result == (None{}) {
		return frame("ack", job.rawID), nil
	}
	text, err := encode(result, maxDepth-1)
	if err != nil {
		return nil, invalidResult(messageFrom(err))
	}
	line := frame("ack", job.rawID, field{"result", text})
	if !s.fits(line) {
		// As ojs-init does when the backend refuses a result: the work is done, it must not be done again.
		s.log.of(job).Error(fmt.Sprintf("its result is dropped: %d bytes, over %d", len(line), s.maxFrame))
		return frame("ack", job.rawID), nil
	}
	return line, nil
}

// wholeMilliseconds counts a part of one as a whole one.
func wholeMilliseconds(pause time.Duration) int64 {
	whole := int64(pause / time.Millisecond)
	if pause%time.Millisecond > 0 {
		whole++
	}
	return whole
}

// describe says what an error is; verdict is the Retry or Discard in it, or nil.
func (s *session) describe(job *Job, err, verdict error) *failure {
	failed := &failure{Code: "handler_error", Retryable: true}
	origin, kind := err, ""
	var details map[string]any
	switch e := verdict.(type) {
	case *Retry:
		origin, kind, details = e.Cause, e.Type, e.Details
		failed.setCode(e.Code)
		if e.After > 0 {
			details = map[string]any{"retry_after_ms": wholeMilliseconds(e.After)}
			for name, value := range e.Details {
				details[name] = value
			}
		}
		failed.Type = "Retry"
	case *Discard:
		origin, kind, details = e.Cause, e.Type, e.Details
		failed.setCode(e.Code)
		failed.Retryable = false
		failed.Type = "Discard"
	}
	if len(details) > 0 {
		if _, err := encode(details, maxDepth-2); err == nil {
			failed.Details = details
		} else {
			s.log.of(job).Warn("the details of the error are not JSON and are left out")
		}
	}
	if origin != nil {
		failed.Type = errorName(origin)
		failed.Backtrace = backtraceOf(origin, job.origin)
	}
	if kind != "" {
		failed.Type = kind
	}
	failed.Type = clean(failed.Type, 200)
	failed.Message = clean(messageFrom(err), maxMessageChars)
	if failed.Message == "" {
		failed.Message = failed.Type
	}
	return failed
}

func (f *failure) setCode(code string) {
	if code != "" {
		f.Code = clean(code, 200)
	}
}
