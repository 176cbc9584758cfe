package ojsworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"ojsworker"
)

// What ends the steps and rows of a job ends the job: whatever its handler makes of that.

// short is a shutdown that leaves no time for a row.
var short = ojsworker.Delivery{Stop: true, StopIn: 100 * time.Millisecond}

const resumes = "resumes at its checkpoint"

func TestAStepWhoseBodySwallowsTheEndOfItsLoopIsNotFinished(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		_, err := ojsworker.Step(job, "load", func() (string, error) {
			_ = ojsworker.Iterate(job, []int{0, 1, 2}, func(row int) error {
				time.Sleep(300 * time.Millisecond)
				return nil
			})
			return "whole", nil
		})
		_, after := ojsworker.Step(job, "tell", func() (string, error) { return "told", nil })
		return []string{fmt.Sprint(err), fmt.Sprint(after)}, nil
	})
	outcome := perform(t, worker, ojsworker.Delivery{Stop: true, StopIn: 700 * time.Millisecond})
	expect(t, []string{outcome.Outcome, outcome.Reason}, []string{"release", resumes})
	sameJSON(t, outcome.LastCheckpoint(), `{"ojs_resume":1,"steps":[],"cursors":{"load":0},"state":null}`)
}

func TestStepsChangedEndsTheJobAlsoWhereItIsSwallowed(t *testing.T) {
	var ran []string
	step := func(job *ojsworker.Job, name string) {
		_, _ = ojsworker.Step(job, name, func() (string, error) { ran = append(ran, name); return name, nil })
	}
	worker := quiet()
	worker.Handle("steps", func(_ context.Context, job *ojsworker.Job) (any, error) {
		step(job, "other")
		step(job, "pay")
		return "done", nil
	})
	worker.Handle("rows", func(_ context.Context, job *ojsworker.Job) (any, error) {
		_, _ = ojsworker.Step(job, "load", func() (string, error) {
			_ = ojsworker.IterateKeyed(job, []int{1, 2}, func(row int) int { return row }, func(int) error { return nil })
			return "whole", nil
		})
		return "done", nil
	})
	for kind, checkpoint := range map[string]string{
		"steps": `{"ojs_resume":1,"steps":[["thumbnail",1]],"cursors":{},"state":null}`,
		"rows":  `{"ojs_resume":1,"steps":[],"cursors":{"load":9},"state":null}`,
	} {
		outcome := perform(t, worker, ojsworker.Delivery{Type: kind, Checkpoint: saved(t, checkpoint)})
		if outcome.Outcome != "fail" || outcome.Error.Type != "StepsChanged" || outcome.Error.Retryable {
			t.Fatalf("%s: %+v %+v", kind, outcome, outcome.Error)
		}
	}
	expect(t, ran, []string(nil))
}

func TestAfterAStepThatFailedNoOtherOneBegins(t *testing.T) {
	isRun := false
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		func() {
			defer func() { _ = recover() }()
			_, _ = ojsworker.Step(job, "thumbnail", func() (string, error) {
				if job.Meta["way"] == "panic" {
					panic("no thumbnail")
				}
				return "", &mailboxFull{3}
			})
		}()
		_, err := ojsworker.Step(job, "pay", func() (string, error) { isRun = true; return "paid", nil })
		return nil, err
	})
	expect(t, perform(t, worker, ojsworker.Delivery{}).Error.Type, "ojsworker_test.mailboxFull")
	failed := perform(t, worker, ojsworker.Delivery{Meta: map[string]any{"way": "panic"}}).Error
	if !strings.Contains(failed.Message, "step thumbnail") || !failed.Retryable {
		t.Fatalf("after a panic: %+v", failed)
	}
	expect(t, isRun, false)
}

func TestAStepThatFailedMayBeCalledAgainAndItsRowsGoOn(t *testing.T) {
	var done []int
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		load := func() (string, error) {
			return ojsworker.Step(job, "load", func() (string, error) {
				return "loaded", ojsworker.Iterate(job, []int{0, 1, 2, 3}, func(row int) error {
					if row == 2 && len(done) == 2 {
						done = append(done, -1)
						return errors.New("boom")
					}
					done = append(done, row)
					return nil
				})
			})
		}
		if _, err := load(); err == nil {
			return nil, errors.New("it did not fail")
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		return ojsworker.Step(job, "tell", func() (string, error) { return "told", nil })
	})
	expect(t, string(perform(t, worker, ojsworker.Delivery{}).Result), `"told"`)
	expect(t, done, []int{0, 1, -1, 2, 3})
}

func TestAStepThatIsTooLargeToKeepLeavesThePositionOfItsRows(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		_, err := ojsworker.Step(job, "load", func() (string, error) {
			return strings.Repeat("x", 70_000), ojsworker.Iterate(job, []int{0, 1}, func(int) error { return nil })
		})
		return nil, &ojsworker.Retry{Message: fmt.Sprint(err)}
	})
	outcome := perform(t, worker, ojsworker.Delivery{})
	sameJSON(t, outcome.LastCheckpoint(), `{"ojs_resume":1,"steps":[],"cursors":{"load":1},"state":null}`)
}

func TestAMiddlewareThatTriesAgainDoesNotDoAFinishedStepAgain(t *testing.T) {
	var ran []string
	tries := 0
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		tries++
		pack, err := ojsworker.Step(job, "pack", func() (string, error) { ran = append(ran, "pack"); return "packed", nil })
		if err != nil {
			return nil, err
		}
		sent, err := ojsworker.Step(job, "send", func() (string, error) {
			return "sent", ojsworker.Iterate(job, []int{0, 1}, func(row int) error {
				if row == 1 && tries == 1 {
					return errors.New("boom")
				}
				ran = append(ran, fmt.Sprint(row))
				return nil
			})
		})
		return []string{pack, sent}, err
	})
	worker.Use(func(next ojsworker.Handler) ojsworker.Handler {
		return func(ctx context.Context, job *ojsworker.Job) (any, error) {
			if _, err := ojsworker.Step(job, "zero", func() (int, error) { ran = append(ran, "zero"); return 0, nil }); err != nil {
				return nil, err
			}
			if result, err := next(ctx, job); err == nil {
				return result, nil
			}
			return next(ctx, job)
		}
	})
	outcome := perform(t, worker, ojsworker.Delivery{})
	expect(t, string(outcome.Result), `["packed","sent"]`)
	expect(t, ran, []string{"zero", "pack", "0", "1"})
}

func TestWhatAHandlerMeansAfterTheEndOfItsLoopCountsButNotWhatItMakesOfThat(t *testing.T) {
	for _, c := range []struct {
		makes  func(end error) error
		wanted string
	}{
		{func(error) error { return nil }, "release " + resumes},
		{func(error) error { return errors.New("boom") }, "release " + resumes},
		{func(error) error { panic("boom") }, "release " + resumes},
		{func(end error) error { return ojsworker.Retryf("no rows: %w", end) }, "release " + resumes},
		{func(error) error { return &ojsworker.Release{Reason: "mine"} }, "release mine"},
		{func(error) error { return &ojsworker.Discard{} }, "fail "},
	} {
		worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
			return "done", c.makes(ojsworker.Iterate(job, []int{1}, func(int) error { return nil }))
		})
		delivery := short
		outcome := perform(t, worker, delivery)
		expect(t, outcome.Outcome+" "+outcome.Reason, c.wanted)
	}
}

func TestALostJobSavesNothingMore(t *testing.T) {
	untilCancelled := func(job *ojsworker.Job, _ int) error { <-job.Context().Done(); return nil }
	outcome := perform(t, rows(5, untilCancelled), ojsworker.Delivery{Cancel: "lost"})
	expect(t, outcome, &ojsworker.Outcome{Outcome: "release", Reason: "lost"})
}

// linesOf is the log of a job whose handler that is.
func linesOf(t *testing.T, handler ojsworker.Handler, delivery ojsworker.Delivery) (lines []map[string]any, outcome *ojsworker.Outcome) {
	t.Helper()
	var log bytes.Buffer
	worker := ojsworker.New(ojsworker.Options{Log: ojsworker.NewLogger(&log, ojsworker.LevelWarn)})
	worker.Handle("test", handler)
	outcome = perform(t, worker, delivery)
	for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		var fields map[string]any
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	return lines, outcome
}

func expectOneLine(t *testing.T, lines []map[string]any, severity, kind string) (failed map[string]any) {
	t.Helper()
	if len(lines) != 1 || lines[0]["severity"] != severity {
		t.Fatalf("the log is %v", lines)
	}
	failed, _ = lines[0]["error"].(map[string]any)
	if failed["type"] != kind {
		t.Fatalf("the error in the log is %v, wanted %s", failed, kind)
	}
	return failed
}

func TestAnErrorAfterACancelGivesTheJobBackAndIsInTheLogWithItsStack(t *testing.T) {
	lines, outcome := linesOf(t, func(ctx context.Context, _ *ojsworker.Job) (any, error) {
		<-ctx.Done()
		return nil, &mailboxFull{3}
	}, ojsworker.Delivery{Cancel: "shutdown"})
	expect(t, outcome.Reason, "shutdown")
	failed := expectOneLine(t, lines, "WARN", "ojsworker_test.mailboxFull")
	if stack, _ := failed["stack"].(string); !strings.Contains(stack, "endings_test.go") {
		t.Fatalf("its stack is %q", stack)
	}
	lines, outcome = linesOf(t, func(_ context.Context, job *ojsworker.Job) (any, error) {
		_ = ojsworker.Iterate(job, []int{1}, func(int) error { return nil })
		return nil, &mailboxFull{3}
	}, short)
	expect(t, outcome.Reason, resumes)
	expectOneLine(t, lines, "WARN", "ojsworker_test.mailboxFull")
}

func TestTheCancelsOwnErrorIsNotInTheLog(t *testing.T) {
	for _, own := range []func(ctx context.Context, job *ojsworker.Job) error{
		func(ctx context.Context, _ *ojsworker.Job) error { return fmt.Errorf("sending: %w", ctx.Err()) },
		func(_ context.Context, job *ojsworker.Job) error { return job.Err() },
		func(context.Context, *ojsworker.Job) error { return context.DeadlineExceeded },
	} {
		lines, outcome := linesOf(t, func(ctx context.Context, job *ojsworker.Job) (any, error) {
			<-ctx.Done()
			return nil, own(ctx, job)
		}, ojsworker.Delivery{Cancel: "shutdown"})
		expect(t, outcome.Reason, "shutdown")
		expect(t, len(lines), 0)
	}
}

func TestAFailedJobIsInTheLogOnceWithWhatWasWrongAndItsStack(t *testing.T) {
	for kind, handler := range map[string]ojsworker.Handler{
		"InvalidResult": func(context.Context, *ojsworker.Job) (any, error) { return math.NaN(), nil },
		"panic":         func(context.Context, *ojsworker.Job) (any, error) { explode(); return nil, nil },
		"ojsworker_test.mailboxFull": func(context.Context, *ojsworker.Job) (any, error) {
			return nil, &ojsworker.Retry{Message: "later", Cause: &mailboxFull{3}}
		},
	} {
		lines, _ := linesOf(t, handler, ojsworker.Delivery{})
		failed := expectOneLine(t, lines, "ERROR", kind)
		stack, _ := failed["stack"].(string)
		if kind != "InvalidResult" && !strings.Contains(stack, "_test.go:") {
			t.Fatalf("%s: its stack is %q", kind, stack)
		}
		if kind == "InvalidResult" && !strings.Contains(fmt.Sprint(failed["message"]), "the handler's result is not JSON") {
			t.Fatalf("its message is %q", failed["message"])
		}
	}
	lines, _ := linesOf(t, func(context.Context, *ojsworker.Job) (any, error) { return nil, ojsworker.Discardf("no") },
		ojsworker.Delivery{})
	expect(t, len(lines), 0)
}

func TestProgressOutsideOf0To1IsMovedInsideAndNaNIsAnError(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		for _, progress := range []float64{-1, 2, math.Inf(1), math.Inf(-1)} {
			if err := job.Progress(progress, "", nil); err != nil {
				return nil, err
			}
		}
		return job.Progress(math.NaN(), "", nil) != nil, nil
	})
	outcome := perform(t, worker, ojsworker.Delivery{})
	expect(t, string(outcome.Result), "true")
	var said []float64
	for _, progress := range outcome.Progress {
		said = append(said, progress.Progress)
	}
	expect(t, said, []float64{0, 1, 1, 0})
}
