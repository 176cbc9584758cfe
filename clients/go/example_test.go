package ojsworker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ojsworker"
)

func Example() {
	worker := ojsworker.New(ojsworker.Options{})
	worker.Handle("email.send", func(ctx context.Context, job *ojsworker.Job) (any, error) {
		var to, body string
		if err := job.Bind(&to, &body); err != nil {
			return nil, err
		}
		return map[string]string{"sent_to": to}, nil
	})
	// In a program: worker.Main()
	outcome, err := worker.Perform("email.send", "a@b.c", "hello")
	if err != nil {
		panic(err)
	}
	fmt.Println(outcome.Outcome, string(outcome.Result))
	// Output: ack {"sent_to":"a@b.c"}
}

func ExampleHandleTyped() {
	type Mail struct {
		To   string
		Body string
		Copy *string // may be missing
	}
	worker := ojsworker.New(ojsworker.Options{})
	ojsworker.HandleTyped(worker, "email.send", func(ctx context.Context, job *ojsworker.Job, mail Mail) (ojsworker.None, error) {
		if !strings.Contains(mail.To, "@") {
			return ojsworker.None{}, ojsworker.Discardf("no address")
		}
		return ojsworker.None{}, nil
	})
	outcome, err := worker.Perform("email.send", "nobody", "hello")
	if err != nil {
		panic(err)
	}
	fmt.Println(outcome.Outcome, outcome.Error.Message, outcome.Error.Retryable)
	// Output: fail no address false
}

func ExampleRetry() {
	worker := ojsworker.New(ojsworker.Options{})
	worker.Handle("email.send", func(context.Context, *ojsworker.Job) (any, error) {
		cause := errors.New("421 try again later")
		return nil, &ojsworker.Retry{Cause: cause, After: 90 * time.Second, Code: "x_busy"}
	})
	outcome, err := worker.Perform("email.send")
	if err != nil {
		panic(err)
	}
	fmt.Println(outcome.Error.Code, outcome.Error.Message, outcome.Error.Details["retry_after_ms"])
	// Output: x_busy 421 try again later 90000
}

func ExampleStep() {
	worker := ojsworker.New(ojsworker.Options{})
	worker.Handle("picture.publish", func(ctx context.Context, job *ojsworker.Job) (any, error) {
		path, err := ojsworker.Step(job, "resize", func() (string, error) {
			fmt.Println("resizing")
			return "/small.png", nil
		})
		if err != nil {
			return nil, err
		}
		return ojsworker.Step(job, "upload", func() (string, error) {
			if job.Attempt == 1 {
				return "", &ojsworker.Release{Reason: "no network"}
			}
			return "https://example.org" + path, nil
		})
	})
	first, err := worker.Perform("picture.publish")
	if err != nil {
		panic(err)
	}
	second, err := worker.PerformDelivery(ojsworker.Delivery{
		Type: "picture.publish", Attempt: 2, Checkpoint: first.LastCheckpoint()})
	if err != nil {
		panic(err)
	}
	fmt.Println(first.Outcome, string(second.Result))
	// Output:
	// resizing
	// release "https://example.org/small.png"
}

func ExampleIterateKeyed() {
	type User struct {
		ID   int
		Name string
	}
	users := []User{{10, "ann"}, {20, "bob"}, {30, "cy"}}
	worker := ojsworker.New(ojsworker.Options{})
	worker.Handle("users.greet", func(ctx context.Context, job *ojsworker.Job) (any, error) {
		return nil, ojsworker.IterateKeyed(job, users, func(user User) int { return user.ID }, func(user User) error {
			if user.Name == "bob" && job.Attempt == 1 {
				return errors.New("bob is out")
			}
			fmt.Println("hello", user.Name)
			return nil
		})
	})
	first, err := worker.Perform("users.greet")
	if err != nil {
		panic(err)
	}
	fmt.Println("again, behind the last one")
	if _, err = worker.PerformDelivery(ojsworker.Delivery{
		Type: "users.greet", Attempt: 2, Checkpoint: first.LastCheckpoint()}); err != nil {
		panic(err)
	}
	// Output:
	// hello ann
	// again, behind the last one
	// hello bob
	// hello cy
}

func ExampleIterateFrom() {
	type User struct {
		ID   int
		Name string
	}
	table := []User{{10, "ann"}, {20, "bob"}, {30, "cy"}}
	// As a database would: the users behind an id, one by one.
	open := func(after *int) (next func() (User, bool, error), err error) {
		at := 0
		for after != nil && at < len(table) && table[at].ID <= *after {
			at++
		}
		return func() (user User, ok bool, err error) {
			if at == len(table) {
				return user, false, nil
			}
			at++
			return table[at-1], true, nil
		}, nil
	}
	worker := ojsworker.New(ojsworker.Options{})
	worker.Handle("users.greet", func(ctx context.Context, job *ojsworker.Job) (any, error) {
		return nil, ojsworker.IterateFrom(job, open, func(user User) int { return user.ID }, func(user User) error {
			if user.Name == "cy" && job.Attempt == 1 {
				return &ojsworker.Retry{Message: "cy is out"}
			}
			fmt.Println("hello", user.Name)
			return nil
		})
	})
	first, err := worker.Perform("users.greet")
	if err != nil {
		panic(err)
	}
	fmt.Println("again, behind the last one")
	if _, err = worker.PerformDelivery(ojsworker.Delivery{
		Type: "users.greet", Attempt: 2, Checkpoint: first.LastCheckpoint()}); err != nil {
		panic(err)
	}
	// Output:
	// hello ann
	// hello bob
	// again, behind the last one
	// hello cy
}

func ExampleWorker_Use() {
	worker := ojsworker.New(ojsworker.Options{})
	worker.Use(func(next ojsworker.Handler) ojsworker.Handler {
		return func(ctx context.Context, job *ojsworker.Job) (any, error) {
			fmt.Println("begins:", job.Type)
			result, err := next(ctx, job)
			fmt.Println("ends:", result, err)
			return result, err
		}
	})
	worker.Handle("a", func(context.Context, *ojsworker.Job) (any, error) { return 1, nil })
	if _, err := worker.Perform("a"); err != nil {
		panic(err)
	}
	// Output:
	// begins: a
	// ends: 1 <nil>
}
