package ojsworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"ojsworker"
)

// rows is a worker that goes over 0 to count-1 in the way that its meta.way names, and notes what it has done.
func rows(count int, each func(job *ojsworker.Job, row int) error) *ojsworker.Worker {
	numbers := make([]int, count)
	for i := range numbers {
		numbers[i] = i
	}
	return returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		var done []int
		do := func(row int) error {
			if err := each(job, row); err != nil {
				return err
			}
			done = append(done, row)
			return nil
		}
		key := func(row int) string { return fmt.Sprintf("k%d", row) }
		var err error
		switch job.Meta["way"] {
		case "keyed":
			err = ojsworker.IterateKeyed(job, numbers, key, do)
		case "from":
			err = ojsworker.IterateFrom(job, func(after *string) (func() (int, bool, error), error) {
				next := 0
				if after != nil {
					_, _ = fmt.Sscanf(*after, "k%d", &next)
					next++
				}
				return func() (int, bool, error) { next++; return next - 1, next <= count, nil }, nil
			}, key, do)
		default:
			err = ojsworker.Iterate(job, numbers, do)
		}
		return done, err
	})
}

func no(*ojsworker.Job, int) error { return nil }

func saved(t *testing.T, text string) any {
	t.Helper()
	var state any
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	return state
}

func sameJSON(t *testing.T, got any, wanted string) {
	t.Helper()
	raw, _ := got.(json.RawMessage)
	if !reflect.DeepEqual(saved(t, string(raw)), saved(t, wanted)) {
		t.Fatalf("got %s, wanted %s", raw, wanted)
	}
}

func TestALoopGoesOnBehindTheSavedRow(t *testing.T) {
	for way, position := range map[string]string{"index": "2", "keyed": `"k2"`, "from": `"k2"`} {
		checkpoint := saved(t, `{"ojs_resume":1,"steps":[],"cursors":{"":`+position+`},"state":null}`)
		outcome := perform(t, rows(5, no), ojsworker.Delivery{Meta: map[string]any{"way": way}, Checkpoint: checkpoint})
		expect(t, string(outcome.Result), "[3,4]")
	}
}

func TestAPositionIsSavedBeforeAJobFailsOrIsGivenBack(t *testing.T) {
	for _, err := range []error{errors.New("boom"), &ojsworker.Release{}} {
		worker := rows(5, func(_ *ojsworker.Job, row int) error {
			if row == 3 {
				return err
			}
			return nil
		})
		for way, position := range map[string]string{"index": "2", "keyed": `"k2"`, "from": `"k2"`} {
			outcome := perform(t, worker, ojsworker.Delivery{Meta: map[string]any{"way": way}})
			expect(t, len(outcome.Checkpoints), 1)
			sameJSON(t, outcome.LastCheckpoint(), `{"ojs_resume":1,"steps":[],"cursors":{"":`+position+`},"state":null}`)
		}
	}
}

func TestALoopThatEndsWellSavesNothing(t *testing.T) {
	outcome := perform(t, rows(5, no), ojsworker.Delivery{})
	expect(t, string(outcome.Result), "[0,1,2,3,4]")
	expect(t, len(outcome.Checkpoints), 0)
}

func TestEachRowIsDoneOnceThroughTwentyShutdowns(t *testing.T) {
	done := map[int]int{}
	worker := rows(60, func(_ *ojsworker.Job, row int) error { time.Sleep(10 * time.Millisecond); done[row]++; return nil })
	var checkpoint any
	for shutdowns := 0; ; shutdowns++ {
		delivery := ojsworker.Delivery{Checkpoint: checkpoint}
		if shutdowns < 20 {
			delivery.Stop, delivery.StopIn = true, 275*time.Millisecond
		}
		outcome := perform(t, worker, delivery)
		if outcome.Outcome == "ack" {
			break
		}
		if outcome.Outcome != "release" || shutdowns >= 20 {
			t.Fatalf("shutdown %d: %+v", shutdowns, outcome)
		}
		if outcome.Checkpoints != nil {
			checkpoint = outcome.LastCheckpoint()
		}
	}
	for row := 0; row < 60; row++ {
		expect(t, done[row], 1)
	}
}

func TestNoRowBeginsThatWouldBeCutOff(t *testing.T) {
	outcome := perform(t, rows(5, no), ojsworker.Delivery{Stop: true, StopIn: 100 * time.Millisecond})
	expect(t, outcome, &ojsworker.Outcome{Outcome: "release", Reason: "resumes at its checkpoint"})
	slow := rows(5, func(*ojsworker.Job, int) error { time.Sleep(400 * time.Millisecond); return nil })
	outcome = perform(t, slow, ojsworker.Delivery{Stop: true, StopIn: 900 * time.Millisecond})
	expect(t, outcome.Reason, "resumes at its checkpoint")
	sameJSON(t, outcome.LastCheckpoint(), `{"ojs_resume":1,"steps":[],"cursors":{"":0},"state":null}`)
}

func TestALoopGoesOnWhenAShutdownLeavesTime(t *testing.T) {
	outcome := perform(t, rows(5, no), ojsworker.Delivery{Stop: true, StopIn: time.Hour})
	expect(t, string(outcome.Result), "[0,1,2,3,4]")
}

func TestACancelledLoopEndsAsTheReasonAsksFor(t *testing.T) {
	untilCancelled := func(job *ojsworker.Job, row int) error { <-job.Context().Done(); return nil }
	outcome := perform(t, rows(5, untilCancelled), ojsworker.Delivery{Cancel: "shutdown"})
	expect(t, outcome.Reason, "resumes at its checkpoint")
	expect(t, len(outcome.Checkpoints), 1)
	expect(t, perform(t, rows(5, untilCancelled), ojsworker.Delivery{Cancel: "lost"}).Reason, "lost")
	failed := perform(t, rows(5, untilCancelled), ojsworker.Delivery{Timeout: 10 * time.Millisecond}).Error
	expect(t, failed.Code, "timeout")
}

func TestAHandlerThatSwallowsTheEndOfALoopIsGivenBackAllTheSame(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		if err := ojsworker.Iterate(job, []int{1, 2}, func(int) error { return nil }); err != nil {
			return nil, fmt.Errorf("no rows: %v", err)
		}
		return nil, nil
	})
	outcome := perform(t, worker, ojsworker.Delivery{Stop: true, StopIn: 10 * time.Millisecond})
	expect(t, outcome.Outcome, "release")
}

func TestAKeyThatDoesNotComeAnyMoreFailsForGood(t *testing.T) {
	checkpoint := saved(t, `{"ojs_resume":1,"steps":[],"cursors":{"":"k99"},"state":null}`)
	failed := perform(t, rows(5, no), ojsworker.Delivery{Meta: map[string]any{"way": "keyed"}, Checkpoint: checkpoint}).Error
	expect(t, failed.Type, "StepsChanged")
	expect(t, failed.Retryable, false)
	failed = perform(t, rows(5, no), ojsworker.Delivery{Checkpoint: checkpoint}).Error
	expect(t, failed.Type, "StepsChanged")
}

func TestAKeyIsTheSameHoweverItsNumberIsSpelled(t *testing.T) {
	type compound struct {
		Name string
		At   []float64
	}
	numbers := []int{10, 20, 30}
	worker := quiet()
	worker.Handle("keyed", func(_ context.Context, job *ojsworker.Job) (any, error) {
		var done []int
		return &done, ojsworker.IterateKeyed(job, numbers, func(row int) int { return row }, func(row int) error {
			done = append(done, row)
			return nil
		})
	})
	worker.Handle("compound", func(_ context.Context, job *ojsworker.Job) (any, error) {
		var done []int
		key := func(row int) compound { return compound{"a", []float64{float64(row) / 4}} }
		return &done, ojsworker.IterateKeyed(job, numbers, key, func(row int) error {
			done = append(done, row)
			return nil
		})
	})
	worker.Handle("from", func(_ context.Context, job *ojsworker.Job) (any, error) {
		var done []int
		return &done, ojsworker.IterateFrom(job, func(after *int) (func() (int, bool, error), error) {
			next := *after
			return func() (int, bool, error) { next += 10; return next, next <= 30, nil }, nil
		}, func(row int) int { return row }, func(row int) error { done = append(done, row); return nil })
	})
	for kind, positions := range map[string][]string{
		"keyed":    {"10", "10.0", "1e1", "1E+1", "100.00e-1"},
		"compound": {`{"At":[2.5],"Name":"a"}`, `{"Name":"a","At":[25e-1]}`, `{"At":[2.50],"Name":"a"}`},
		"from":     {"10", "10.0", "1e1"},
	} {
		for _, position := range positions {
			checkpoint := json.RawMessage(`{"ojs_resume":1,"steps":[],"cursors":{"":` + position + `},"state":null}`)
			outcome := perform(t, worker, ojsworker.Delivery{Type: kind, Checkpoint: checkpoint})
			if string(outcome.Result) != "[20,30]" {
				t.Errorf("%s, %s: %+v %+v", kind, position, outcome, outcome.Error)
			}
		}
	}
}

func TestWhileALoopRunsItsPositionIsSavedEveryFiveSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes more than 5 s")
	}
	worker := rows(56, func(*ojsworker.Job, int) error { time.Sleep(100 * time.Millisecond); return nil })
	began := time.Now()
	outcome := perform(t, worker, ojsworker.Delivery{})
	if saved, most := len(outcome.Checkpoints), int(time.Since(began)/(5*time.Second)); saved < 1 || saved > most {
		t.Fatalf("it was saved %d times, at most %d are right", saved, most)
	}
}

// steps is a worker with these steps, each with its name in capitals as result.
func steps(ran *[]string, names ...string) *ojsworker.Worker {
	return returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		var results []string
		for _, name := range names {
			name := name
			result, err := ojsworker.Step(job, name, func() (string, error) {
				if name == "fails" {
					return "", errors.New("boom")
				}
				*ran = append(*ran, name)
				return strings.ToUpper(name), nil
			})
			if err != nil {
				return nil, err
			}
			results = append(results, result)
		}
		return results, nil
	})
}

func TestAFinishedStepIsACheckpointAndDoesNotRunAgain(t *testing.T) {
	var ran []string
	outcome := perform(t, steps(&ran, "a", "b", "fails"), ojsworker.Delivery{})
	expect(t, outcome.Error.Message, "boom")
	expect(t, len(outcome.Checkpoints), 2)
	sameJSON(t, outcome.Checkpoints[0], `{"ojs_resume":1,"steps":[["a","A"]],"cursors":{},"state":null}`)
	sameJSON(t, outcome.Checkpoints[1], `{"ojs_resume":1,"steps":[["a","A"],["b","B"]],"cursors":{},"state":null}`)
	outcome = perform(t, steps(&ran, "a", "b", "c"), ojsworker.Delivery{Checkpoint: outcome.LastCheckpoint()})
	expect(t, string(outcome.Result), `["A","B","C"]`)
	expect(t, ran, []string{"a", "b", "c"})
}

func TestStepsInAnotherOrderFailForGoodAndTheMessageNamesBoth(t *testing.T) {
	var ran []string
	checkpoint := saved(t, `{"ojs_resume":1,"steps":[["a","A"],["b","B"]],"cursors":{},"state":null}`)
	failed := perform(t, steps(&ran, "a", "c"), ojsworker.Delivery{Checkpoint: checkpoint}).Error
	expect(t, failed.Type, "StepsChanged")
	expect(t, failed.Retryable, false)
	if !strings.Contains(failed.Message, "a, b") || !strings.Contains(failed.Message, "a, c") {
		t.Fatalf("the message is %q", failed.Message)
	}
	checkpoint = saved(t, `{"ojs_resume":1,"steps":[["a","A"]],"cursors":{"b":7},"state":null}`)
	failed = perform(t, steps(&ran, "a", "c"), ojsworker.Delivery{Checkpoint: checkpoint}).Error
	expect(t, failed.Type, "StepsChanged")
	expect(t, ran, []string(nil))
}

func TestTwoStepsOfOneNameFailForGood(t *testing.T) {
	var ran []string
	failed := perform(t, steps(&ran, "a", "a"), ojsworker.Delivery{}).Error
	expect(t, failed.Retryable, false)
	if !strings.Contains(failed.Message, "two steps a") {
		t.Fatalf("the message is %q", failed.Message)
	}
}

func TestALoopInAStepHasAPositionOfItsOwn(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		if err := job.Checkpoint("mine"); err != nil {
			return nil, err
		}
		return ojsworker.Step(job, "import", func() (ojsworker.None, error) {
			return ojsworker.None{}, ojsworker.Iterate(job, []int{0, 1, 2}, func(row int) error {
				if row == 2 {
					return errors.New("boom")
				}
				return nil
			})
		})
	})
	outcome := perform(t, worker, ojsworker.Delivery{})
	sameJSON(t, outcome.LastCheckpoint(), `{"ojs_resume":1,"steps":[],"cursors":{"import":1},"state":"mine"}`)
}

func TestTheProgramsOwnStateComesBackAsItWasSaved(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		var state any
		_, err := job.LastCheckpoint(&state)
		return state, err
	})
	for _, checkpoint := range []string{`{"step":1}`, `{"ojs_resume":1,"steps":[],"cursors":{},"state":{"step":1}}`} {
		expect(t, string(perform(t, worker, ojsworker.Delivery{Checkpoint: saved(t, checkpoint)}).Result), `{"step":1}`)
	}
}

func TestMoreThan64KiBOfStepsFailForGood(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		return ojsworker.Step(job, "large", func() (string, error) { return strings.Repeat("x", 64*1024), nil })
	})
	failed := perform(t, worker, ojsworker.Delivery{}).Error
	expect(t, failed.Type, "CheckpointTooLarge")
	expect(t, failed.Retryable, false)
}

func TestAStepsResultThatIsNoJSONFailsForGood(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		return ojsworker.Step(job, "odd", func() (any, error) { return make(chan int), nil })
	})
	expect(t, perform(t, worker, ojsworker.Delivery{}).Error.Type, "InvalidResult")
}

func TestAStepThatTookLongIsNotBegunShortlyBeforeTheEnd(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		return ojsworker.Step(job, "slow", func() (ojsworker.None, error) {
			time.Sleep(300 * time.Millisecond)
			return ojsworker.None{}, nil
		})
	})
	expect(t, perform(t, worker, ojsworker.Delivery{}).Outcome, "ack")
	outcome := perform(t, worker, ojsworker.Delivery{Stop: true, StopIn: 440 * time.Millisecond})
	expect(t, outcome, &ojsworker.Outcome{Outcome: "release", Reason: "resumes at its checkpoint"})
}

func TestACheckpointOfAnotherGoroutineNeverTakesAFinishedStepBack(t *testing.T) {
	const count = 100
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		ends := make(chan struct{})
		var others sync.WaitGroup
		defer others.Wait()
		defer close(ends)
		for at := 0; at < count; at++ {
			at := at
			if _, err := ojsworker.Step(job, fmt.Sprint(at), func() (int, error) { return at, nil }); err != nil {
				return nil, err
			}
			if at >= 2 {
				continue
			}
			others.Add(1)
			go func() {
				defer others.Done()
				for n := 0; ; n++ {
					select {
					case <-ends:
						return
					default:
						_ = job.Checkpoint(n)
					}
				}
			}()
		}
		return nil, nil
	})
	for round := 0; round < 5; round++ {
		outcome := perform(t, worker, ojsworker.Delivery{})
		before := 0
		for _, checkpoint := range outcome.Checkpoints {
			var form struct{ Steps []any }
			if err := json.Unmarshal(checkpoint, &form); err != nil {
				t.Fatal(err)
			}
			if len(form.Steps) < before {
				t.Fatalf("a checkpoint with %d steps came behind one with %d", len(form.Steps), before)
			}
			before = len(form.Steps)
		}
		expect(t, before, count)
	}
}
