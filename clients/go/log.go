package ojsworker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Level is how much a line of the log matters, as severity_number of the Open Job Spec has it.
type Level int

// The levels, from the least to the most.
const (
	LevelTrace Level = 1
	LevelDebug Level = 5
	LevelInfo  Level = 9
	LevelWarn  Level = 13
	LevelError Level = 17
	LevelFatal Level = 21
)

var levelNames = map[Level]string{
	LevelTrace: "TRACE", LevelDebug: "DEBUG", LevelInfo: "INFO", LevelWarn: "WARN", LevelError: "ERROR", LevelFatal: "FATAL",
}

// ParseLevel reads trace, debug, info, warn, warning, error or fatal, in small or capital letters.
func ParseLevel(name string) (Level, error) {
	upper := strings.ToUpper(name)
	if upper == "WARNING" {
		upper = "WARN"
	}
	for level, known := range levelNames {
		if known == upper {
			return level, nil
		}
	}
	return 0, fmt.Errorf("no such level: %q; known are trace, debug, info, warn, error, fatal", clean(name, 50))
}

// String is the level's name in capital letters.
func (l Level) String() string {
	if name, ok := levelNames[l]; ok {
		return name
	}
	return strconv.Itoa(int(l))
}

const (
	maxLogChars   = 10_000
	maxLogIDChars = 200
)

// Logger writes lines, each one JSON object in the shape of the log of ojs-init, and knows which job they are about.
// Any goroutine may use it.
type Logger struct {
	sink *logSink
	job  *Job
	// isCareful: what the program's writer throws does not leave it.
	isCareful bool
}

// logSink is what all loggers that come from one have in common; without a writer it is the standard package log.
type logSink struct {
	mu    sync.Mutex
	to    io.Writer
	level Level
}

var (
	installed   atomic.Pointer[Logger]
	plainLogger = &Logger{sink: &logSink{level: LevelInfo}}
)

// NewLogger makes a logger of JSON lines from the level on.
func NewLogger(to io.Writer, level Level) *Logger {
	return &Logger{sink: &logSink{to: to, level: level}}
}

// InstallLog lets everything of this process log JSON lines to standard error from the level on that $OJS_LOG_LEVEL
// names, info without it: the worker, and the standard package log, so libraries as well. What a handler's goroutine
// logs by it names its job. Handlers in other goroutines use LoggerFrom, or Job.LogHere.
func InstallLog() *Logger {
	level, err := ParseLevel(os.Getenv("OJS_LOG_LEVEL"))
	if err != nil {
		level = LevelInfo
	}
	logger := NewLogger(os.Stderr, level)
	logger.Install()
	return logger
}

// Install makes it the logger of workers that have none of their own, and what the standard package log writes to.
func (l *Logger) Install() {
	installed.Store(l)
	log.SetFlags(0)
	log.SetOutput(l.Writer(LevelInfo))
}

// LoggerFrom is a logger for the job whose handler got the context; one for no job outside of handlers.
func LoggerFrom(ctx context.Context) *Logger {
	job := FromContext(ctx)
	if job == nil || job.session == nil {
		if logger := installed.Load(); logger != nil {
			return logger
		}
		return plainLogger
	}
	return &Logger{sink: job.session.log.sink, job: job}
}

// Writer is for other log packages: each Write is one line of this level. It is about the logger's job, or else that of
// the handler whose goroutine writes.
func (l *Logger) Writer(level Level) io.Writer { return &logWriter{l, level} }

type logWriter struct {
	logger *Logger
	level  Level
}

// Write logs a line.
func (w *logWriter) Write(text []byte) (int, error) {
	w.logger.of(w.logger.jobHere()).log(w.level, string(bytes.TrimRight(text, "\r\n")), nil)
	return len(text), nil
}

// Debug logs for who wants to find out why.
func (l *Logger) Debug(message string) { l.of(l.jobHere()).log(LevelDebug, message, nil) }

// Info logs what happens.
func (l *Logger) Info(message string) { l.of(l.jobHere()).log(LevelInfo, message, nil) }

// Warn logs what goes on, but not as it should.
func (l *Logger) Warn(message string) { l.of(l.jobHere()).log(LevelWarn, message, nil) }

// Error logs what failed.
func (l *Logger) Error(message string) { l.of(l.jobHere()).log(LevelError, message, nil) }

// Enabled says whether lines of this level are written.
func (l *Logger) Enabled(level Level) bool { return l.of(l.jobHere()).lets(level) }

// jobHere is the logger's job, or that of the handler whose goroutine this is.
func (l *Logger) jobHere() *Job {
	if l.job != nil {
		return l.job
	}
	return jobOfGoroutine()
}

func (l *Logger) of(job *Job) *Logger {
	if job == nil {
		return l
	}
	return &Logger{sink: l.sink, job: job, isCareful: l.isCareful}
}

// careful is for the worker's own lines: a writer that panics would end the process from a goroutine that is nobody's.
func (l *Logger) careful() *Logger { return &Logger{sink: l.sink, job: l.job, isCareful: true} }

// logLine is a line in the shape of docs/logging.md.
type logLine struct {
	Timestamp string    `json:"timestamp"`
	Severity  string    `json:"severity"`
	Number    Level     `json:"severity_number"`
	Message   string    `json:"message"`
	Category  string    `json:"category"`
	Component string    `json:"component"`
	OJS       *logJob   `json:"ojs,omitempty"`
	Trace     *logTrace `json:"trace,omitempty"`
	Error     *logError `json:"error,omitempty"`

	Attributes map[string]any `json:"attributes,omitempty"`
}

type logJob struct {
	JobID   string `json:"job_id"`
	JobType string `json:"job_type"`
	Queue   string `json:"queue"`
	Attempt *int   `json:"attempt,omitempty"`
}

type logTrace struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id,omitempty"`
}

type logError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// log writes a line about the logger's job, or about none, if the level is enough.
func (l *Logger) log(level Level, message string, failed *failure) {
	if l.lets(level) {
		l.write(level, message, failed, nil)
	}
}

func (l *Logger) lets(level Level) bool {
	if l.job != nil && l.job.logLevel != nil {
		return level >= *l.job.logLevel
	}
	return level >= l.sink.level
}

// write writes a line; the attributes are JSON.
func (l *Logger) write(level Level, message string, failed *failure, attributes map[string]any) {
	if l.isCareful {
		defer func() { _ = recover() }()
	}
	if l.sink.to == nil {
		log.Print(plainLine(level, l.job, message, failed, attributes))
		return
	}
	line := &logLine{
		Timestamp: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), Severity: level.String(), Number: level,
		Message: clean(message, maxLogChars), Category: "worker", Component: "worker", Attributes: attributes,
	}
	if l.job != nil {
		line.Component = "handler"
		line.OJS, line.Trace = aboutJob(l.job)
	}
	if failed != nil {
		line.Error = &logError{clean(failed.Type, maxLogIDChars), clean(failed.Message, maxLogChars),
			strings.Join(failed.Backtrace, "\n")}
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(line) != nil {
		return
	}
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()
	_, _ = l.sink.to.Write(buffer.Bytes())
}

func aboutJob(job *Job) (*logJob, *logTrace) {
	about := &logJob{JobID: clean(job.ID, maxLogIDChars), JobType: clean(job.Type, maxLogIDChars),
		Queue: clean(job.Queue, maxLogIDChars)}
	if job.Attempt >= 0 {
		about.Attempt = &job.Attempt
	}
	traceID, spanID := job.Trace()
	if traceID == "" {
		return about, nil
	}
	return about, &logTrace{traceID, spanID}
}

// Trace is the trace that the job was enqueued in: of a W3C meta.traceparent, else meta.trace_id without a span; "" if
// there is none.
func (j *Job) Trace() (traceID, spanID string) {
	if parent, ok := j.Meta["traceparent"].(string); ok {
		parts := strings.Split(parent, "-")
		if len(parts) >= 4 && isHex(parts[0], 2) && parts[0] != "ff" && isHex(parts[1], 32) && isHex(parts[2], 16) &&
			isHex(parts[3], 2) && strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != "" {
			return parts[1], parts[2]
		}
	}
	traceID, _ = j.Meta["trace_id"].(string)
	return clean(traceID, maxLogIDChars), ""
}

func isHex(text string, length int) bool {
	return len(text) == length && strings.Trim(text, "0123456789abcdef") == ""
}

// plainLine is for the standard package log. Ids and messages come from elsewhere: only a stack breaks lines.
func plainLine(level Level, job *Job, message string, failed *failure, attributes map[string]any) string {
	text := "ojsworker: " + strings.ToLower(level.String()) + ": "
	if job != nil {
		text += "job " + clean(job.ID, maxLogIDChars) + " (" + clean(job.Type, maxLogIDChars) + "): "
	}
	text += clean(message, maxLogChars)
	if failed != nil {
		text += ": " + failed.Type + ": " + failed.Message
	}
	if len(attributes) > 0 {
		more, _ := json.Marshal(attributes)
		text += " " + string(more)
	}
	text = strings.Map(func(char rune) rune {
		if char < ' ' || char == 0x7f || char >= 0x80 && char < 0xa0 {
			return ' '
		}
		return char
	}, text)
	if failed != nil && len(failed.Backtrace) > 0 {
		text += "\n    " + strings.Join(failed.Backtrace, "\n    ")
	}
	return text
}
