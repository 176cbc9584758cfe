package ojsworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"ojsworker"
)

// quiet is a worker whose log nobody reads.
func quiet() *ojsworker.Worker {
	return ojsworker.New(ojsworker.Options{Log: ojsworker.NewLogger(io.Discard, ojsworker.LevelInfo)})
}

// returning is a worker with one handler, of the type "test".
func returning(handler ojsworker.Handler) *ojsworker.Worker {
	worker := quiet()
	worker.Handle("test", handler)
	return worker
}

func perform(t *testing.T, worker *ojsworker.Worker, delivery ojsworker.Delivery) *ojsworker.Outcome {
	t.Helper()
	if delivery.Type == "" {
		delivery.Type = "test"
	}
	outcome, err := worker.PerformDelivery(delivery)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func performError(t *testing.T, err error) *ojsworker.JobError {
	t.Helper()
	outcome := perform(t, returning(func(context.Context, *ojsworker.Job) (any, error) { return nil, err }), ojsworker.Delivery{})
	if outcome.Outcome != "fail" {
		t.Fatalf("the outcome is %+v", outcome)
	}
	return outcome.Error
}

func expect(t *testing.T, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Fatalf("got %#v, wanted %#v", got, wanted)
	}
}

func TestAResultGoesThroughJSON(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		return map[string]any{"args": job.Args, "html": "<b>"}, nil
	})
	outcome := perform(t, worker, ojsworker.Delivery{Args: []any{json.Number("9007199254740993"), "é"}})
	expect(t, string(outcome.Result), `{"args":[9007199254740993,"é"],"html":"<b>"}`)
}

func TestAJobWithoutAResultIsAcknowledgedWithoutOne(t *testing.T) {
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { return nil, nil })
	ojsworker.HandleTyped(worker, "none", func(context.Context, *ojsworker.Job, ojsworker.None) (ojsworker.None, error) {
		return ojsworker.None{}, nil
	})
	for _, kind := range []string{"test", "none"} {
		outcome := perform(t, worker, ojsworker.Delivery{Type: kind})
		expect(t, outcome, &ojsworker.Outcome{Outcome: "ack"})
	}
}

type mailboxFull struct{ Size int }

func (e *mailboxFull) Error() string { return fmt.Sprintf("mailbox full: %d", e.Size) }

func TestAnyErrorFailsRetryableWithItsTypeAndTheHandlerAsBacktrace(t *testing.T) {
	failed := performError(t, fmt.Errorf("sending: %w", &mailboxFull{3}))
	expect(t, failed.Message, "sending: mailbox full: 3")
	expect(t, failed.Type, "ojsworker_test.mailboxFull")
	expect(t, failed.Code, "handler_error")
	expect(t, failed.Retryable, true)
	if len(failed.Backtrace) != 1 || !strings.Contains(failed.Backtrace[0], "perform_test.go") {
		t.Fatalf("the backtrace is %q", failed.Backtrace)
	}
}

func explode() { panic("boom") }

func TestAPanicFailsWithItsStackInnermostFirst(t *testing.T) {
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { explode(); return nil, nil })
	failed := perform(t, worker, ojsworker.Delivery{}).Error
	expect(t, failed.Message, "boom")
	expect(t, failed.Type, "panic")
	expect(t, failed.Retryable, true)
	if !strings.Contains(failed.Backtrace[0], "explode") {
		t.Fatalf("the backtrace is %q", failed.Backtrace)
	}
	for _, line := range failed.Backtrace {
		if strings.Contains(line, "ojsworker.(*session)") {
			t.Fatalf("the backtrace has our own call: %q", failed.Backtrace)
		}
	}
}

func TestAHandlerThatEndsItsGoroutineFails(t *testing.T) {
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { panic(nil) })
	failed := perform(t, worker, ojsworker.Delivery{}).Error
	expect(t, failed.Retryable, true)
}

type nasty struct{}

func (*nasty) Error() string { panic("in Error") }

func TestAnErrorWhoseMessagePanicsFailsTheJob(t *testing.T) {
	failed := performError(t, &nasty{})
	expect(t, failed.Message, "(its message cannot be shown: *ojsworker_test.nasty)")
}

type wrapsBadly struct{}

func (*wrapsBadly) Error() string { return "x" }
func (*wrapsBadly) Unwrap() error { panic("in Unwrap") }

func TestAnErrorWhoseUnwrapPanicsFailsTheJob(t *testing.T) {
	failed := performError(t, &wrapsBadly{})
	expect(t, failed.Message, "the answer cannot be made: a method of the handler's error panics, a *ojsworker_test.wrapsBadly")
	expect(t, failed.Retryable, true)
}

func TestANilPointerAsAnErrorIsNamed(t *testing.T) {
	var none *ojsworker.Retry
	failed := performError(t, none)
	expect(t, failed.Message,
		"the answer cannot be made: the handler returned a nil *ojsworker.Retry as its error, which is not nil; return nil itself")
}

func TestAnErrorWithoutAMessageHasItsTypeAsMessage(t *testing.T) {
	expect(t, performError(t, errors.New("")).Message, "error")
}

func TestRetryFailsInItsOwnWordsAndSaysHowLongToWait(t *testing.T) {
	failed := performError(t, fmt.Errorf("wrapped: %w", &ojsworker.Retry{
		Message: "later", After: 1500500 * time.Microsecond, Code: "x_later", Type: "Later", Details: map[string]any{"a": "b"}}))
	expect(t, failed.Code, "x_later")
	expect(t, failed.Type, "Later")
	expect(t, failed.Retryable, true)
	expect(t, failed.Details, map[string]any{"a": "b", "retry_after_ms": json.Number("1501")})
}

func TestDiscardFailsForGood(t *testing.T) {
	failed := performError(t, ojsworker.Discardf("no address: %w", &mailboxFull{1}))
	expect(t, failed.Retryable, false)
	expect(t, failed.Message, "no address: mailbox full: 1")
	expect(t, failed.Type, "ojsworker_test.mailboxFull")
	expect(t, performError(t, &ojsworker.Discard{Message: "no"}).Type, "Discard")
}

func TestDetailsThatAreNoJSONAreLeftOut(t *testing.T) {
	failed := performError(t, &ojsworker.Retry{Message: "x", Details: map[string]any{"f": math.Inf(1)}})
	expect(t, failed.Message, "x")
	expect(t, len(failed.Details), 0)
}

func TestReleaseGivesTheJobBack(t *testing.T) {
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) {
		return nil, fmt.Errorf("not now: %w", &ojsworker.Release{Reason: "not mine"})
	})
	outcome := perform(t, worker, ojsworker.Delivery{})
	expect(t, outcome, &ojsworker.Outcome{Outcome: "release", Reason: "not mine"})
}

func TestAResultThatIsNoJSONFailsForGoodAsInvalidResult(t *testing.T) {
	cycle := map[string]any{}
	cycle["again"] = cycle
	deep := any("x")
	for i := 0; i < 100; i++ {
		deep = []any{deep}
	}
	for name, result := range map[string]any{
		"NaN": math.NaN(), "a channel": make(chan int), "a cycle": cycle, "broken text": "\xff", "too deep": deep,
		"a broken key": map[string]int{"\xff": 1}, "a marshaler that panics": panickingMarshaler{},
	} {
		result := result
		worker := returning(func(context.Context, *ojsworker.Job) (any, error) { return result, nil })
		failed := perform(t, worker, ojsworker.Delivery{}).Error
		if failed == nil || failed.Retryable || failed.Type != "InvalidResult" ||
			!strings.HasPrefix(failed.Message, "the handler's result is not JSON") {
			t.Errorf("%s: %+v", name, failed)
		}
	}
}

type panickingMarshaler struct{}

func (panickingMarshaler) MarshalJSON() ([]byte, error) { panic("no") }

// tree is a result whose nodes know their parents, and which has the replacement character in its JSON.
type tree struct {
	Parent *tree `json:"-"`
	Name   string
	Raw    json.RawMessage
	Kids   []*tree
}

func (t *tree) grow(names ...string) *tree {
	for _, name := range names {
		t.Kids = append(t.Kids, &tree{Parent: t, Name: name})
	}
	return t
}

func TestAResultWhoseNodesKnowTheirParentsIsSearchedOnce(t *testing.T) {
	root := &tree{Raw: json.RawMessage(`"caf\ufffd"`)}
	for _, kid := range root.grow("a", "b", "c").Kids {
		kid.grow("d", "e", "f")
	}
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { return root, nil })
	expect(t, perform(t, worker, ojsworker.Delivery{}).Outcome, "ack")
	root.Kids[2].Kids[2].Name = "\xff"
	expect(t, perform(t, worker, ojsworker.Delivery{}).Error.Type, "InvalidResult")
}

func TestOnlyWhatIsInTheJSONOfAResultHasToBeUTF8(t *testing.T) {
	type hidden string
	result := struct {
		Shown   json.RawMessage
		Left    string `json:"-"`
		Dash    string `json:"-,"`
		private string
		hidden
	}{Shown: json.RawMessage(`"\ufffd"`), Left: "\xff", Dash: "-", private: "\xff", hidden: "\xff"}
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { return result, nil })
	expect(t, perform(t, worker, ojsworker.Delivery{}).Outcome, "ack")
	result.Dash = "\xff"
	expect(t, perform(t, worker, ojsworker.Delivery{}).Error.Type, "InvalidResult")
}

func TestAResultOf99LevelsAndTheReplacementCharacterAreFine(t *testing.T) {
	deep := any("\uFFFD")
	for i := 0; i < 99; i++ {
		deep = []any{deep}
	}
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { return deep, nil })
	expect(t, perform(t, worker, ojsworker.Delivery{}).Outcome, "ack")
}

func TestAResultOverMaxFrameIsDroppedAndTheJobIsDone(t *testing.T) {
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { return strings.Repeat("x", 5<<20), nil })
	expect(t, perform(t, worker, ojsworker.Delivery{}), &ojsworker.Outcome{Outcome: "ack"})
}

func TestAnUnknownTypeFailsRetryable(t *testing.T) {
	failed := perform(t, returning(nil2), ojsworker.Delivery{Type: "other"}).Error
	expect(t, failed.Code, "handler_not_found")
	expect(t, failed.Retryable, true)
}

func nil2(context.Context, *ojsworker.Job) (any, error) { return nil, nil }

func TestTheStarHandlerTakesWhatHasNone(t *testing.T) {
	worker := returning(nil2)
	worker.Handle("*", func(_ context.Context, job *ojsworker.Job) (any, error) { return job.Type, nil })
	expect(t, string(perform(t, worker, ojsworker.Delivery{Type: "other"}).Result), `"other"`)
	expect(t, perform(t, worker, ojsworker.Delivery{}).Result, json.RawMessage(nil))
}

func TestAHandlerHasAllFieldsOfItsJob(t *testing.T) {
	worker := returning(func(ctx context.Context, job *ojsworker.Job) (any, error) {
		deadline, hasDeadline := job.Deadline()
		ofContext, _ := ctx.Deadline()
		var last map[string]int
		had, err := job.LastCheckpoint(&last)
		if left := time.Until(deadline); !hasDeadline || left > time.Minute || left < time.Minute/2 || ofContext != deadline {
			return nil, fmt.Errorf("the deadline is %v, that of the context %v", deadline, ofContext)
		}
		if ojsworker.FromContext(ctx) != job || !had || err != nil {
			return nil, errors.New("no job in the context, or no checkpoint")
		}
		return []any{job.ID, job.Type, job.Queue, job.Attempt, job.Args, job.Meta, last, job.Envelope()["queue"]}, nil
	})
	outcome := perform(t, worker, ojsworker.Delivery{ID: "j7", Queue: "mail", Attempt: 3, Args: []any{1}, Timeout: time.Minute,
		Meta: map[string]any{"tenant": "a"}, Checkpoint: map[string]int{"step": 2}})
	expect(t, string(outcome.Result), `["j7","test","mail",3,[1],{"tenant":"a"},{"step":2},"mail"]`)
}

func TestProgressHeartbeatAndCheckpointsAreSeenInTheOutcome(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		for i := 0; i < 3; i++ {
			if err := job.Progress(float64(i), "m", i); err != nil {
				return nil, err
			}
		}
		if job.Progress(math.NaN(), "", nil) == nil {
			return nil, errors.New("NaN was taken")
		}
		_ = job.Heartbeat()
		_ = job.Checkpoint(1)
		return nil, job.Checkpoint(map[string]int{"n": 2})
	})
	outcome := perform(t, worker, ojsworker.Delivery{})
	expect(t, outcome.Progress, []ojsworker.Progress{{0, "m", json.RawMessage("0")}, {1, "m", json.RawMessage("1")},
		{1, "m", json.RawMessage("2")}})
	expect(t, outcome.Heartbeats, 1)
	expect(t, outcome.Checkpoints, []json.RawMessage{json.RawMessage("1"), json.RawMessage(`{"n":2}`)})
}

func TestNothingCanBeSaidAboutAJobThatIsAnswered(t *testing.T) {
	var kept *ojsworker.Job
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) { kept = job; return nil, nil })
	perform(t, worker, ojsworker.Delivery{})
	for _, err := range []error{kept.Progress(1, "", nil), kept.Checkpoint(1), kept.Heartbeat()} {
		if !errors.Is(err, ojsworker.ErrAnswered) {
			t.Fatalf("the error is %v", err)
		}
	}
}

func waitForCancel(ctx context.Context, _ *ojsworker.Job) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAHandlerThatGivesUpAfterACancelIsAnsweredAsTheReasonAsksFor(t *testing.T) {
	worker := returning(waitForCancel)
	for _, reason := range []string{"cancelled", "lost", "shutdown", "a new one"} {
		outcome := perform(t, worker, ojsworker.Delivery{Cancel: reason})
		expect(t, outcome, &ojsworker.Outcome{Outcome: "release", Reason: reason})
	}
	failed := perform(t, worker, ojsworker.Delivery{Timeout: 20 * time.Millisecond}).Error
	expect(t, failed.Code, "timeout")
	expect(t, failed.Retryable, true)
}

func TestAHandlerThatIsThroughInSpiteOfACancelIsAcknowledged(t *testing.T) {
	worker := returning(func(ctx context.Context, job *ojsworker.Job) (any, error) {
		<-ctx.Done()
		return job.CancelReason(), nil
	})
	expect(t, string(perform(t, worker, ojsworker.Delivery{Cancel: "cancelled"}).Result), `"cancelled"`)
}

func TestAPanicAfterACancelIsAFailure(t *testing.T) {
	worker := returning(func(ctx context.Context, job *ojsworker.Job) (any, error) { <-ctx.Done(); panic("boom") })
	expect(t, perform(t, worker, ojsworker.Delivery{Cancel: "cancelled"}).Error.Message, "boom")
}

func TestAHandlerThatDoesNotEndIsAnErrorOfTheTest(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs)
	worker := returning(func(context.Context, *ojsworker.Job) (any, error) { <-hangs; return nil, nil })
	_, err := worker.PerformDelivery(ojsworker.Delivery{Type: "test", Cancel: "cancelled", Patience: 10 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Fatalf("the error is %v", err)
	}
}

func TestAHandlerThatHangsWithoutACancelIsAnErrorOfTheTestToo(t *testing.T) {
	ended := make(chan string, 1)
	worker := returning(func(ctx context.Context, job *ojsworker.Job) (any, error) {
		<-ctx.Done()
		ended <- job.CancelReason()
		return nil, nil
	})
	_, err := worker.PerformDelivery(ojsworker.Delivery{Type: "test", GiveUpAfter: 10 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "GiveUpAfter") {
		t.Fatalf("the error is %v", err)
	}
	expect(t, <-ended, "lost") // it does not stay behind
}

func TestAHandlerThatIsCancelledHasItsPatienceHoweverSoonTheTestGivesUp(t *testing.T) {
	goOn := make(chan struct{})
	worker := returning(func(ctx context.Context, job *ojsworker.Job) (any, error) {
		<-ctx.Done()
		time.AfterFunc(350*time.Millisecond, func() { close(goOn) })
		<-goOn
		return job.CancelReason(), nil
	})
	outcome := perform(t, worker, ojsworker.Delivery{Cancel: "cancelled", GiveUpAfter: 300 * time.Millisecond})
	expect(t, string(outcome.Result), `"cancelled"`)
}

func TestAShutdownIsSeenFromTheFirstLineOfTheHandlerOn(t *testing.T) {
	worker := returning(func(ctx context.Context, job *ojsworker.Job) (any, error) {
		left, isKnown := job.Remaining()
		select {
		case <-job.Stopping():
			return isKnown && left > 0 && left <= time.Hour && ctx.Err() == nil, nil
		default:
			return "not stopping", nil
		}
	})
	expect(t, string(perform(t, worker, ojsworker.Delivery{Stop: true, StopIn: time.Hour}).Result), "true")
	outcome := perform(t, worker, ojsworker.Delivery{})
	expect(t, string(outcome.Result), `"not stopping"`)
}

func TestAJobIsCancelledWhenTheTimeOfTheShutdownIsOver(t *testing.T) {
	outcome := perform(t, returning(waitForCancel), ojsworker.Delivery{Stop: true, StopIn: 20 * time.Millisecond})
	expect(t, outcome, &ojsworker.Outcome{Outcome: "release", Reason: "shutdown"})
}

func TestMiddlewareIsAroundHandlersTheFirstOneOutermost(t *testing.T) {
	type key struct{}
	worker := quiet()
	for _, name := range []string{"outer", "inner"} {
		name := name
		worker.Use(func(next ojsworker.Handler) ojsworker.Handler {
			return func(ctx context.Context, job *ojsworker.Job) (any, error) {
				names, _ := ctx.Value(key{}).([]string)
				result, err := next(context.WithValue(ctx, key{}, append(names, name)), job)
				return fmt.Sprint(result, " ", name), err
			}
		})
	}
	worker.Handle("test", func(ctx context.Context, job *ojsworker.Job) (any, error) { return ctx.Value(key{}), nil })
	for i := 0; i < 2; i++ { // nothing of one job is seen by the next
		expect(t, string(perform(t, worker, ojsworker.Delivery{}).Result), `"[outer inner] inner outer"`)
	}
}

func TestMiddlewareMayDiscard(t *testing.T) {
	worker := returning(nil2)
	worker.Use(func(ojsworker.Handler) ojsworker.Handler {
		return func(context.Context, *ojsworker.Job) (any, error) { return nil, ojsworker.Discardf("not here") }
	})
	expect(t, perform(t, worker, ojsworker.Delivery{}).Error.Message, "not here")
}

func TestARegistrationThatIsWrongPanicsAndSaysWhy(t *testing.T) {
	for wanted, register := range map[string]func(){
		"has a handler already": func() { returning(nil2).Handle("test", nil2) },
		"1 to 1024 bytes":       func() { quiet().Handle("", nil2) },
		"is nil":                func() { quiet().Handle("a", nil) },
		"middleware is nil":     func() { quiet().Use(nil) },
		"Options.Concurrency":   func() { ojsworker.New(ojsworker.Options{Concurrency: -1}) },
		"too late": func() {
			worker := returning(nil2)
			_, _ = worker.Perform("test")
			worker.Handle("other", nil2)
		},
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, wanted) {
					t.Errorf("%q does not say %q", said, wanted)
				}
			}()
			register()
		}()
	}
}

func TestOutsideOfOjsInitRunSaysSo(t *testing.T) {
	before, had := os.LookupEnv("OJS_SOCKET")
	os.Unsetenv("OJS_SOCKET")
	if had {
		defer os.Setenv("OJS_SOCKET", before)
	}
	for _, path := range []string{"", "/nonexistent/socket"} {
		worker := ojsworker.New(ojsworker.Options{SocketPath: path, IgnoreSignals: true})
		worker.Handle("test", nil2)
		if err := worker.Run(context.Background()); !errors.Is(err, ojsworker.ErrNotUnderOjsInit) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
