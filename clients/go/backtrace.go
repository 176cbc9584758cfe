package ojsworker

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unicode/utf8"
)

const (
	maxBacktraceFrames = 50
	maxBacktraceChars  = 10_000
	maxMessageChars    = 10_000
)

// panicError is what a handler panicked with, and where.
type panicError struct {
	value   any
	callers []uintptr
}

func (e *panicError) Error() string {
	if err, ok := e.value.(error); ok {
		return err.Error()
	}
	return fmt.Sprint(e.value)
}

func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// newPanicError is for the deferred function that has recovered the value.
func newPanicError(value any) *panicError {
	callers := make([]uintptr, 2*maxBacktraceFrames)
	return &panicError{value, callers[:runtime.Callers(3, callers)]}
}

// errorName is the class of an error, without the wrappers that only add words.
func errorName(err error) string {
	for err != nil {
		name := strings.TrimLeft(fmt.Sprintf("%T", err), "*")
		switch name {
		case "errors.errorString", "fmt.wrapError", "fmt.wrapErrors", "errors.joinError":
		case "ojsworker.panicError":
			if _, ok := err.(*panicError).value.(error); !ok {
				return "panic"
			}
		default:
			return name
		}
		unwrapper, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = unwrapper.Unwrap()
	}
	return "error"
}

// backtraceOf is the calls that led to an error, innermost first: of a panic, or of an error that knows them (one with
// a method `Callers() []uintptr`, or `StackTrace()` as those of github.com/pkg/errors). An error of Go knows no calls:
// then it is the handler that returned it.
func backtraceOf(err error, handler any) []string {
	callers := callersIn(err)
	if len(callers) == 0 {
		if handler == nil {
			return nil
		}
		function := runtime.FuncForPC(reflect.ValueOf(handler).Pointer())
		file, line := function.FileLine(function.Entry())
		return []string{fmt.Sprintf("%s:%d returned by %s", file, line, function.Name())}
	}
	var lines []string
	room := maxBacktraceChars
	frames := runtime.CallersFrames(callers)
	for more := true; more && len(lines) < maxBacktraceFrames; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasPrefix(frame.Function, "ojsworker.(*session).") {
			break
		}
		isRuntime := len(lines) == 0 && strings.HasPrefix(frame.Function, "runtime.")
		if isRuntime || strings.HasPrefix(frame.Function, "ojsworker.restarting.") {
			continue
		}
		line := clean(fmt.Sprintf("%s:%d in %s", frame.File, frame.Line, frame.Function), 1000)
		if room -= utf8.RuneCountInString(line); room < 0 {
			break
		}
		lines = append(lines, line)
	}
	return lines
}

func callersIn(err error) []uintptr {
	for err != nil {
		switch e := err.(type) {
		case *panicError:
			return e.callers
		case interface{ Callers() []uintptr }:
			return e.Callers()
		}
		if method := reflect.ValueOf(err).MethodByName("StackTrace"); method.IsValid() {
			if callers := callersFrom(method); callers != nil {
				return callers
			}
		}
		unwrapper, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil
		}
		err = unwrapper.Unwrap()
	}
	return nil
}

func callersFrom(method reflect.Value) []uintptr {
	kind := method.Type()
	if kind.NumIn() != 0 || kind.NumOut() != 1 || kind.Out(0).Kind() != reflect.Slice ||
		kind.Out(0).Elem().Kind() != reflect.Uintptr {
		return nil
	}
	trace := method.Call(nil)[0]
	callers := make([]uintptr, trace.Len())
	for i := range callers {
		callers[i] = uintptr(trace.Index(i).Uint())
	}
	return callers
}

// messageFrom is what an error says, also when its own method panics.
func messageFrom(err error) (message string) {
	defer func() {
		if value := recover(); value != nil {
			message = fmt.Sprintf("(its message cannot be shown: %T)", err)
		}
	}()
	return err.Error()
}

// clean makes a text that fits into a frame: whole characters, not too many.
func clean(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	count := 0
	for at := range text {
		if count++; count > limit {
			runes := []rune(text[:at])
			return string(runes[:limit-3]) + "..."
		}
	}
	return text
}
