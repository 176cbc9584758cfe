//go:build go1.21

package ojsworker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// SlogHandler is a handler for log/slog that writes lines of this logger, with the attributes of a record under
// "attributes", and groups in their names. A line is about the job of its context, or else of the handler whose
// goroutine logs. Only with Go 1.21 or later.
//
//	slog.SetDefault(slog.New(ojsworker.InstallLog().SlogHandler()))
func (l *Logger) SlogHandler() slog.Handler {
	if l.sink.to == nil {
		// It writes to the package log, which slog.SetDefault leads to the handler: a circle.
		l = NewLogger(os.Stderr, l.sink.level)
	}
	return &slogHandler{logger: l}
}

type slogHandler struct {
	logger *Logger
	prefix string
	// attributes are those of WithAttrs; never changed once they are here.
	attributes map[string]any
}

func (h *slogHandler) about(ctx context.Context) *Logger {
	if ctx != nil {
		if job := FromContext(ctx); job != nil {
			return h.logger.of(job)
		}
	}
	return h.logger.of(h.logger.jobHere())
}

// Enabled says whether records of this level are written.
func (h *slogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.about(ctx).lets(levelOf(level))
}

// Handle writes a record.
func (h *slogHandler) Handle(ctx context.Context, record slog.Record) error {
	attributes := h.copied()
	record.Attrs(func(attribute slog.Attr) bool {
		addAttribute(attributes, h.prefix, attribute)
		return true
	})
	h.about(ctx).write(levelOf(record.Level), record.Message, nil, attributes)
	return nil
}

// WithAttrs is a handler with more attributes.
func (h *slogHandler) WithAttrs(more []slog.Attr) slog.Handler {
	attributes := h.copied()
	for _, attribute := range more {
		addAttribute(attributes, h.prefix, attribute)
	}
	return &slogHandler{h.logger, h.prefix, attributes}
}

// WithGroup is a handler whose further attributes have the group in their names.
func (h *slogHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &slogHandler{h.logger, h.prefix + name + ".", h.attributes}
}

func (h *slogHandler) copied() map[string]any {
	attributes := make(map[string]any, len(h.attributes))
	for name, value := range h.attributes {
		attributes[name] = value
	}
	return attributes
}

func levelOf(level slog.Level) Level {
	switch {
	case level < slog.LevelDebug:
		return LevelTrace
	case level < slog.LevelInfo:
		return LevelDebug
	case level < slog.LevelWarn:
		return LevelInfo
	case level < slog.LevelError:
		return LevelWarn
	}
	return LevelError
}

func addAttribute(to map[string]any, prefix string, attribute slog.Attr) {
	value := attribute.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if attribute.Key != "" {
			prefix += attribute.Key + "."
		}
		for _, inner := range value.Group() {
			addAttribute(to, prefix, inner)
		}
		return
	}
	if attribute.Key == "" {
		return
	}
	to[clean(prefix+attribute.Key, maxLogIDChars)] = loggable(value.Any())
}

// loggable is a value as JSON has it, or as text where it has none.
func loggable(value any) any {
	switch v := value.(type) {
	case nil, bool, int64, uint64:
		return v
	case string:
		return clean(v, maxLogChars)
	case time.Duration:
		return v.String()
	case error:
		return clean(messageFrom(v), maxLogChars)
	}
	if text, err := encode(value, maxDepth-2); err == nil && len(text) <= maxLogChars {
		return value
	}
	return clean(fmt.Sprintf("%+v", value), maxLogChars)
}
