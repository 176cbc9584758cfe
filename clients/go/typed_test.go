package ojsworker

import (
	"context"
	"encoding/json"
	"testing"
	"time"
)

type mail struct {
	To    string
	Count int
	Note  *string
}

func takes[Args any](t *testing.T, name string, args string, expected string) {
	t.Helper()
	worker := New(Options{})
	HandleTyped(worker, "t", func(_ context.Context, _ *Job, args Args) (Args, error) { return args, nil })
	var list []any
	if err := decode([]byte(args), &list); err != nil {
		t.Fatal(err)
	}
	outcome, err := worker.Perform("t", list...)
	if err != nil {
		t.Fatal(err)
	}
	got := string(outcome.Result)
	if outcome.Error != nil {
		got = outcome.Error.Message
		if outcome.Error.Type != "InvalidArgs" || outcome.Error.Code != "invalid_args" || outcome.Error.Retryable {
			t.Errorf("%s: %+v", name, outcome.Error)
		}
	}
	if got != expected {
		t.Errorf("%s: %s instead of %s", name, got, expected)
	}
}

func TestTypedArguments(t *testing.T) {
	takes[mail](t, "in order", `["ann", 2]`, `{"To":"ann","Count":2,"Note":null}`)
	takes[mail](t, "with the optional one", `["ann", 2, "x"]`, `{"To":"ann","Count":2,"Note":"x"}`)
	takes[mail](t, "by name", `[{"to": "ann", "count": 2}]`, `{"To":"ann","Count":2,"Note":null}`)
	takes[struct{ User mail }](t, "an object as the only field", `[{"to": "ann"}]`, `{"User":{"To":"ann","Count":0,"Note":null}}`)
	takes[[]int](t, "a slice", `[1, 2]`, `[1,2]`)
	takes[[]int](t, "an empty slice", `[]`, `[]`)
	takes[string](t, "one", `["ann"]`, `"ann"`)
	takes[*string](t, "null for a pointer", `[null]`, `null`)
	takes[None](t, "none", `[]`, ``)
	takes[json.Number](t, "exact numbers", `[0.10000000000000000000001]`, `0.10000000000000000000001`)
	takes[any](t, "anything", `[9007199254740993]`, `9007199254740993`)
	takes[time.Time](t, "a type that reads itself", `["2026-01-02T03:04:05Z"]`, `"2026-01-02T03:04:05Z"`)
}

func TestArgumentsThatDoNotFitAreNamedWithoutTheirValue(t *testing.T) {
	takes[mail](t, "too few", `["secret"]`, "args: expected 2 to 3 arguments, got 1")
	takes[mail](t, "too many", `["secret", 2, "x", 4]`, "args: expected 2 to 3 arguments, got 4")
	takes[mail](t, "wrong type", `[7, 2]`, "args[0]: expected string, got number")
	takes[mail](t, "a fraction", `["ann", 1.5]`, "args[1]: expected int, got number")
	takes[mail](t, "null", `[null, 2]`, "args[0]: expected string, got null")
	takes[mail](t, "in an object", `[{"To": ["secret"]}]`, "args[0].To: expected string, got array")
	takes[None](t, "none", `["secret"]`, "args: expected 0 to 0 arguments, got 1")
	takes[[]bool](t, "in a slice", `[true, "secret"]`, "args[1]: expected bool, got string")
	takes[time.Time](t, "a type that reads itself", `["secret"]`, "args[0]: expected time.Time, got string")
}
