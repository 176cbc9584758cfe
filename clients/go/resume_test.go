package ojsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// importer is a job of two steps, of which the second has a loop over rows that take so long.
func importer(took time.Duration, ran *[]string, rows int) Handler {
	return func(_ context.Context, job *Job) (any, error) {
		path, err := Step(job, "fetch", func() (string, error) {
			*ran = append(*ran, "fetch")
			return "/tmp/rows", nil
		})
		if err != nil {
			return nil, err
		}
		return Step(job, "load", func() (int, error) {
			numbers := make([]int, rows)
			for i := range numbers {
				numbers[i] = i
			}
			return rows, IterateKeyed(job, numbers, func(n int) string { return fmt.Sprint("row ", n) }, func(n int) error {
				*ran = append(*ran, fmt.Sprint(path, n))
				return job.Sleep(took)
			})
		})
	}
}

func TestAJobGoesOnInItsNextLifeWhereAShutdownStoppedIt(t *testing.T) {
	var ran []string
	worker, _ := testWorker(importer(100*time.Millisecond, &ran, 8))
	first := perform(t, worker, Delivery{StopIn: 700 * time.Millisecond})
	if summary(first) != "release resumes at its checkpoint" || len(ran) > 7 {
		t.Fatal(summary(first), ran)
	}
	second := perform(t, worker, Delivery{Checkpoint: first.Checkpoint})
	if summary(second) != "ack 8" ||
		fmt.Sprint(ran) != "[fetch /tmp/rows0 /tmp/rows1 /tmp/rows2 /tmp/rows3 /tmp/rows4 /tmp/rows5 /tmp/rows6 /tmp/rows7]" {
		t.Error(summary(second), ran)
	}
}

func TestThePositionIsSavedBeforeTheJobFailsOrIsCancelledButNotWhenItIsLost(t *testing.T) {
	for reason, isSaved := range map[string]bool{"": true, "timeout": true, "cancelled": true, "lost": false} {
		worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) {
			return nil, Iterate(job, []int{0, 1, 2}, func(n int) error {
				if n < 2 {
					return nil
				}
				if reason != "" {
					job.cancel(&Cancelled{Reason: reason})
				}
				return errors.New("at 2")
			})
		})
		outcome := perform(t, worker, Delivery{})
		if got := strings.Contains(string(outcome.Checkpoint), `"cursors":{"":1}`); got != isSaved {
			t.Errorf("%q: %s", reason, outcome.Checkpoint)
		}
	}
}

func TestTheStateOfTheHandlerStaysBesideItsPosition(t *testing.T) {
	worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) {
		var mine string
		if _, err := job.LastCheckpoint(&mine); err != nil {
			return nil, err
		}
		if err := job.Checkpoint(mine + "x"); err != nil {
			return nil, err
		}
		return Step(job, "a", func() (string, error) { return mine, nil })
	})
	first := perform(t, worker, Delivery{Checkpoint: "m"})
	if got := string(first.Checkpoint); got != `{"ojs_resume":1,"steps":[["a","m"]],"cursors":{},"state":"mx"}` {
		t.Error(got)
	}
	if got := summary(perform(t, worker, Delivery{Checkpoint: first.Checkpoint})); got != `ack "m"` {
		t.Error(got)
	}
}

func TestRowsOfADatabaseGoOnBehindTheSavedKey(t *testing.T) {
	worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) {
		var seen []int64
		open := func(after *int64) (func() (int64, bool, error), error) {
			id := int64(0)
			if after != nil {
				id = *after
			}
			return func() (int64, bool, error) { id += 10; return id, id <= 40, nil }, nil
		}
		err := IterateFrom(job, open, func(id int64) int64 { return id }, func(id int64) error {
			seen = append(seen, id)
			return nil
		})
		return seen, err
	})
	for cursor, expected := range map[string]string{"20": "ack [30,40]", "2e1": "ack [30,40]", "40.0": "ack null", "null": "ack [10,20,30,40]"} {
		checkpoint := json.RawMessage(`{"ojs_resume":1,"steps":[],"cursors":{"":` + cursor + `},"state":null}`)
		if got := summary(perform(t, worker, Delivery{Checkpoint: checkpoint})); got != expected {
			t.Errorf("%s: %s", cursor, got)
		}
	}
}

func TestMistakesWithStepsFailTheJobForGood(t *testing.T) {
	step := func(job *Job, name string) error {
		_, err := Step(job, name, func() (string, error) { return name, nil })
		return err
	}
	loop := func(job *Job) error { return Iterate(job, []int{1}, func(int) error { return nil }) }
	for name, c := range map[string]struct {
		handler    func(job *Job) error
		checkpoint string
	}{
		"WrongUse: two steps": {func(job *Job) error { return errors.Join(step(job, "a"), step(job, "a")) }, "null"},
		"WrongUse: no name":   {func(job *Job) error { return step(job, "") }, "null"},
		"WrongUse: two loops": {func(job *Job) error { return errors.Join(loop(job), loop(job)) }, "null"},
		"WrongUse: not JSON": {func(job *Job) error {
			_, err := Step(job, "a", func() (any, error) { return t.Fatal, nil })
			return err
		}, "null"},
		"WrongUse: in another": {func(job *Job) error {
			_, err := Step(job, "a", func() (any, error) { return nil, step(job, "b") })
			return err
		}, "null"},
		"CheckpointTooLarge: a": {func(job *Job) error { return step(job, strings.Repeat("x", 40_000)) }, "null"},
		"StepsChanged: name": {func(job *Job) error { return step(job, "a") },
			`{"ojs_resume":1,"steps":[["b",1]],"cursors":{},"state":null}`},
		"StepsChanged: type": {func(job *Job) error { return step(job, "a") },
			`{"ojs_resume":1,"steps":[["a",1]],"cursors":{},"state":null}`},
		"StepsChanged: key": {loop, `{"ojs_resume":1,"steps":[],"cursors":{"":"k"},"state":null}`},
	} {
		worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) { return nil, c.handler(job) })
		failure := perform(t, worker, Delivery{Checkpoint: json.RawMessage(c.checkpoint)}).Error
		if failure == nil || failure.Retryable || !strings.HasPrefix(name, failure.Type+":") {
			t.Errorf("%s: %+v", name, failure)
		}
	}
}

func TestAStepThatFailedDoesNotKeepTheNextFromBeginning(t *testing.T) {
	worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) {
		if _, err := Step(job, "optional", func() (None, error) { return None{}, errors.New("no") }); err == nil {
			t.Error("no error")
		}
		return Step(job, "next", func() (string, error) { return "done", nil })
	})
	if got := summary(perform(t, worker, Delivery{})); got != `ack "done"` {
		t.Error(got)
	}
}
