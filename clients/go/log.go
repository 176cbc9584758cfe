package ojsworker

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
)

const (
	// maxLogChars bounds a text in the log.
	maxLogChars    = 10_000
	maxStackFrames = 50
)

// Fields returns the attributes of a job for log/slog: the group "ojs" with job_id, job_type,
// queue and attempt, and the group "trace" with trace_id and span_id, if Job.Traceparent is valid.
//
//	logger := slog.With(ojsworker.Fields(job))
func Fields(job *Job) slog.Attr {
	// A group without a name is written inline.
	groups := []any{slog.Group("ojs", "job_id", job.ID, "job_type", job.Type, "queue", job.Queue, "attempt", job.Attempt)}
	if parts := strings.Split(job.Traceparent, "-"); len(parts) == 4 && len(parts[1]) == 32 && len(parts[2]) == 16 {
		groups = append(groups, slog.Group("trace", "trace_id", parts[1], "span_id", parts[2]))
	}
	return slog.Group("", groups...)
}

// LogHandler returns a handler that adds Fields to each record whose context is that of a job's
// handler, or made from it. A job's meta.log_level (error, warn, info, debug, trace) then counts
// instead of the level of next. In a group (WithGroup) the attributes stand in that group.
//
//	slog.SetDefault(slog.New(ojsworker.LogHandler(slog.NewJSONHandler(os.Stderr, nil))))
//	slog.InfoContext(ctx, "half done")
func LogHandler(next slog.Handler) slog.Handler {
	if _, isWrapped := next.(*logHandler); isWrapped {
		return next
	}
	return &logHandler{next}
}

type logHandler struct{ next slog.Handler }

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	if job := FromContext(ctx); job != nil {
		name, _ := job.Meta["log_level"].(string)
		var least slog.Level
		if least.UnmarshalText([]byte(strings.Replace(name, "trace", "debug-4", 1))) == nil {
			return level >= least
		}
	}
	return h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	if job := FromContext(ctx); job != nil {
		record = record.Clone()
		record.AddAttrs(Fields(job))
	}
	return h.next.Handle(ctx, record)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.next.WithAttrs(attrs)}
}

func (h *logHandler) WithGroup(name string) slog.Handler { return &logHandler{h.next.WithGroup(name)} }

func (s *session) logFailure(job *Job, level slog.Level, message string, failure *Failure) {
	s.log.Log(job.ctx, level, message, slog.Group("error", "type", clip(failure.Type), "message", clip(failure.Message),
		"stack", clip(strings.Join(failure.Backtrace, "\n"))))
}

func clip(text string) string { return fmt.Sprintf("%.*s", maxLogChars, text) }

// panicStack is the stack of the panic that the calling deferred function has recovered, without
// the frames of the runtime and of this package that are around the handler.
func panicStack() (stack []string) {
	callers := make([]uintptr, maxStackFrames)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	ours := reflect.TypeOf(session{}).PkgPath() + ".(*session)."
	for {
		frame, more := frames.Next()
		if !more || strings.HasPrefix(frame.Function, ours) {
			return stack
		}
		if !strings.HasPrefix(frame.Function, "runtime.") {
			stack = append(stack, fmt.Sprintf("%s:%d in %s", frame.File, frame.Line, frame.Function))
		}
	}
}
