package ojsworker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"
)

// testWorker has one handler, "t", and a log.
func testWorker(handler Handler) (*Worker, *bytes.Buffer) {
	log := &bytes.Buffer{}
	worker := New(Options{Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	worker.Handle("t", handler)
	return worker, log
}

func perform(t *testing.T, worker *Worker, delivery Delivery) *Outcome {
	t.Helper()
	if delivery.Type == "" {
		delivery.Type = "t"
	}
	outcome, err := worker.PerformDelivery(delivery)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// summary is all of an outcome but the backtrace, in one line.
func summary(o *Outcome) string {
	switch o.Outcome {
	case "ack":
		// Go 1.21 writes the escape, later versions the character itself.
		return "ack " + strings.ReplaceAll(string(o.Result), `\ufffd`, "\ufffd")
	case "release":
		return "release " + o.Reason
	}
	return fmt.Sprintf("fail %s|%s|%s|%v|%v", o.Error.Message, o.Error.Type, o.Error.Code, o.Error.Retryable, o.Error.Details)
}

type badError struct{ cause *badError }

func (e *badError) Error() string { return e.cause.Error() }

type badResult struct{}

func (badResult) MarshalJSON() ([]byte, error) { panic("secret") }

func TestEachEndOfAHandlerIsOneAnswer(t *testing.T) {
	unread := errors.New("unread")
	for _, c := range []struct {
		name     string
		result   any
		err      error
		expected string
	}{
		{"a result", map[string]int{"a": 1}, nil, `ack {"a":1}`},
		{"none", None{}, nil, "ack "},
		{"no JSON", make(chan int), nil, "ack "},
		{"a result that panics", badResult{}, nil, "ack "},
		{"broken UTF-8", "\xff", nil, "ack \"\ufffd\""},
		{"an error", nil, unread, "fail unread|errors.errorString|handler_error|true|map[]"},
		{"a wrapped one", nil, fmt.Errorf("mail: %w", io.EOF), "fail mail: EOF|errors.errorString|handler_error|true|map[]"},
		{"Retry", nil, &Retry{Cause: unread, After: 1500 * time.Microsecond, Code: "x_full"},
			"fail unread|errors.errorString|x_full|true|map[retry_after_ms:2]"},
		{"Discard in another", nil, fmt.Errorf("a: %w", &Discard{Message: "no", Type: "Bad", Details: map[string]any{"n": "1"}}),
			"fail a: no|Bad|handler_error|false|map[n:1]"},
		{"details that are no JSON", nil, &Discard{Message: "no", Details: map[string]any{"n": t.Fatal}},
			"fail no|ojsworker.Discard|handler_error|false|map[]"},
		{"Release", nil, &Release{Reason: "later"}, "release later"},
		{"an outer Retry counts", nil, &Retry{Message: "m", Cause: &Release{}}, "fail m|ojsworker.Release|handler_error|true|map[]"},
	} {
		worker, log := testWorker(func(context.Context, *Job) (any, error) { return c.result, c.err })
		if got := summary(perform(t, worker, Delivery{})); got != c.expected {
			t.Errorf("%s: %s instead of %s", c.name, got, c.expected)
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("%s: the log has the value: %s", c.name, log)
		}
	}
}

func TestPanicsAndGoexitFailTheJobRetryable(t *testing.T) {
	for name, end := range map[string]func(){
		"kaputt":    func() { panic("kaputt") },
		"nil":       func() { panic(nil) },
		"nil point": func() { fmt.Println((*Job)(nil).ID) },
		"Goexit":    runtime.Goexit,
		"PANIC":     func() { panic(&badError{}) },
	} {
		worker, log := testWorker(func(context.Context, *Job) (any, error) { end(); return nil, nil })
		failure := perform(t, worker, Delivery{}).Error
		if failure == nil || !strings.Contains(failure.Message, strings.Fields(name)[0]) || !failure.Retryable {
			t.Errorf("%s: %+v", name, failure)
		} else if name == "kaputt" && !strings.Contains(failure.Backtrace[0], "perform_test.go") {
			t.Errorf("the backtrace begins elsewhere: %v", failure.Backtrace)
		}
		if !strings.Contains(log.String(), `"job_id":"test-job"`) {
			t.Errorf("%s: not in the log: %s", name, log)
		}
	}
	worker, _ := testWorker(func(context.Context, *Job) (any, error) { return nil, (*badError)(nil) })
	if failure := perform(t, worker, Delivery{}).Error; failure == nil || !failure.Retryable {
		t.Errorf("an error whose method panics: %+v", failure)
	}
}

func TestAHandlerThatObeysItsCancelIsAnsweredByTheReason(t *testing.T) {
	for _, handler := range []Handler{
		func(ctx context.Context, _ *Job) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		func(_ context.Context, job *Job) (any, error) { return nil, job.Sleep(time.Minute) },
		func(ctx context.Context, _ *Job) (any, error) { <-ctx.Done(); return nil, errors.New("gave up") },
	} {
		worker, _ := testWorker(handler)
		for delivery, expected := range map[*Delivery]string{
			{Cancel: "cancelled"}:          "release cancelled",
			{StopIn: time.Millisecond}:     "release shutdown",
			{Timeout: time.Millisecond}:    "fail the job took longer than its timeout|Timeout|timeout|true|map[]",
			{Cancel: "of a later version"}: "release of a later version",
		} {
			if got := summary(perform(t, worker, *delivery)); got != expected {
				t.Errorf("%s instead of %s", got, expected)
			}
		}
	}
}

func TestAHandlerKnowsThatItIsCancelledAndWhy(t *testing.T) {
	worker, _ := testWorker(func(ctx context.Context, job *Job) (any, error) {
		if FromContext(ctx) != job {
			t.Error("the job is not in its context")
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), context.Canceled) || context.Cause(ctx) != job.Err() {
			t.Error(context.Cause(ctx))
		}
		return job.CancelReason(), nil
	})
	if got := summary(perform(t, worker, Delivery{Cancel: "lost", CancelAfter: 20 * time.Millisecond})); got != `ack "lost"` {
		t.Error(got)
	}
}

func TestEachFailureIsSeenOnceByTheHook(t *testing.T) {
	var seen []string
	worker := New(Options{Log: slog.New(slog.NewJSONHandler(io.Discard, nil)), OnFailure: func(_ context.Context, job *Job, err error) {
		seen = append(seen, fmt.Sprintf("%s %T", job.Type, err))
	}})
	worker.Handle("error", func(context.Context, *Job) (any, error) { return nil, io.EOF })
	worker.Handle("panic", func(context.Context, *Job) (any, error) { panic(1) })
	worker.Handle("release", func(context.Context, *Job) (any, error) { return nil, &Release{} })
	HandleTyped(worker, "typed", func(context.Context, *Job, string) (None, error) { return None{}, nil })
	for _, jobType := range []string{"error", "panic", "release", "typed", "unknown"} {
		perform(t, worker, Delivery{Type: jobType})
	}
	expected := "[error *errors.errorString panic *ojsworker.Panic typed *ojsworker.Discard unknown *ojsworker.Retry]"
	if fmt.Sprint(seen) != expected {
		t.Error(seen)
	}
}

func TestAHookThatPanicsDoesNotChangeTheFailure(t *testing.T) {
	worker, _ := testWorker(func(context.Context, *Job) (any, error) { return nil, &Discard{Message: "no such user", Type: "Gone"} })
	worker.options.OnFailure = func(context.Context, *Job, error) { panic("the tracker is down") }
	failure := perform(t, worker, Delivery{}).Error
	if failure == nil || failure.Message != "no such user" || failure.Type != "Gone" || failure.Retryable {
		t.Errorf("%+v", failure)
	}
}

func TestMiddlewareIsAroundEachHandlerTheFirstOutermost(t *testing.T) {
	var calls []string
	worker, _ := testWorker(func(context.Context, *Job) (any, error) { calls = append(calls, "handler"); return nil, io.EOF })
	for _, name := range []string{"outer", "inner"} {
		name := name
		worker.Use(func(next Handler) Handler {
			return func(ctx context.Context, job *Job) (any, error) {
				calls = append(calls, name)
				_, err := next(ctx, job)
				return name, errors.Unwrap(err)
			}
		})
	}
	if got := summary(perform(t, worker, Delivery{})); got != `ack "outer"` || fmt.Sprint(calls) != "[outer inner handler]" {
		t.Error(got, calls)
	}
}

func TestMistakesInARegistrationPanicAndShowWhatWouldWork(t *testing.T) {
	handler := func(context.Context, *Job) (any, error) { return nil, nil }
	for name, mistake := range map[string]func(w *Worker){
		"func(ctx context.Context, job *ojsworker.Job) (any, error)": func(w *Worker) { w.Handle("a", nil) },
		"already":    func(w *Worker) { w.Handle("a", handler); w.Handle("a", handler) },
		"is empty":   func(w *Worker) { w.Handle("", handler) },
		"0 for what": func(*Worker) { New(Options{Concurrency: -1}) },
		"JSON cannot": func(w *Worker) {
			HandleTyped(w, "a", func(context.Context, *Job, chan int) (any, error) { return nil, nil })
		},
		"without exp": func(w *Worker) {
			HandleTyped(w, "a", func(context.Context, *Job, struct{ to string }) (any, error) { return nil, nil })
		},
		"To, Body": func(w *Worker) {
			HandleTyped(w, "a", func(context.Context, *Job, int) (func(), error) { return nil, nil })
		},
		"of \"a\" is n": func(w *Worker) { HandleTyped[int, int](w, "a", nil) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, name) {
					t.Errorf("%s: %s", name, text)
				}
			}()
			mistake(New(Options{}))
		}()
	}
}
