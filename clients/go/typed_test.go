package ojsworker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"ojsworker"
)

type mail struct {
	To   string `json:"to"`
	Body string `json:"body"`
	Copy *bool  `json:"copy"`
}

// typed registers a handler that returns its arguments.
func typed[Args any](t *testing.T, args ...any) *ojsworker.Outcome {
	t.Helper()
	worker := quiet()
	ojsworker.HandleTyped(worker, "test", func(_ context.Context, _ *ojsworker.Job, args Args) (Args, error) {
		return args, nil
	})
	return perform(t, worker, ojsworker.Delivery{Args: args})
}

func TestTypedArgumentsComeInOrderByNameAloneOrAll(t *testing.T) {
	wanted := `{"to":"a@b.c","body":"hi","copy":null}`
	expect(t, string(typed[mail](t, "a@b.c", "hi").Result), wanted)
	expect(t, string(typed[mail](t, map[string]string{"to": "a@b.c", "body": "hi"}).Result), wanted)
	expect(t, string(typed[mail](t, "a", "b", true).Result), `{"to":"a","body":"b","copy":true}`)
	expect(t, string(typed[int](t, 7).Result), "7")
	expect(t, string(typed[[]int](t, 7, 8).Result), "[7,8]")
	expect(t, string(typed[[]any](t, json.Number("9007199254740993")).Result), "[9007199254740993]")
	expect(t, string(typed[map[string]int](t, map[string]int{"a": 1}).Result), `{"a":1}`)
}

func TestAnObjectWithoutAnyOfTheFieldsNamesIsTheOnlyFieldsArgument(t *testing.T) {
	type payload struct{ Event map[string]any }
	type nested struct{ Mail *mail }
	expect(t, string(typed[payload](t, map[string]any{"q": 1}).Result), `{"Event":{"q":1}}`)
	expect(t, string(typed[payload](t, map[string]any{}).Result), `{"Event":{}}`)
	expect(t, string(typed[payload](t, map[string]any{"event": map[string]int{"q": 1}}).Result), `{"Event":{"q":1}}`)
	expect(t, string(typed[nested](t, map[string]any{"to": "a", "body": "b"}).Result), `{"Mail":{"to":"a","body":"b","copy":null}}`)
	expect(t, string(typed[mail](t, map[string]any{"TO": "a", "x": 1}).Result), `{"to":"a","body":"","copy":null}`)
	expect(t, string(typed[mail](t, map[string]any{}).Result), `{"to":"","body":"","copy":null}`)
}

func TestArgumentsThatDoNotFitFailForGoodWithoutAQuotedValue(t *testing.T) {
	for wanted, outcome := range map[string]*ojsworker.Outcome{
		"argument 2 of the job is a JSON number, which does not fit into string": typed[mail](t, "secret", 12345),
		"the job has 1 argument, its handler takes 2 to 3":                       typed[mail](t, "secret"),
		"the job has 2 arguments, its handler takes one":                         typed[int](t, 12345, 1),
		"which does not fit into int (in n)": typed[struct {
			N int `json:"n"`
		}](t, map[string]string{"n": "secret"}),
		"is a JSON number, which does not fit into int": typed[int](t, 12345.5),
	} {
		failed := outcome.Error
		if failed == nil || failed.Type != "InvalidArgs" || failed.Retryable || !strings.Contains(failed.Message, wanted) {
			t.Errorf("%q: %+v", wanted, failed)
		} else if strings.Contains(failed.Message, "secret") || strings.Contains(failed.Message, "12345") {
			t.Errorf("a value is quoted: %s", failed.Message)
		}
	}
}

func TestBindTakesOnePointerForEachArgument(t *testing.T) {
	worker := returning(func(_ context.Context, job *ojsworker.Job) (any, error) {
		var to string
		if err := job.Bind(&to, nil); err != nil {
			return nil, err
		}
		return to, nil
	})
	expect(t, string(perform(t, worker, ojsworker.Delivery{Args: []any{"a", 1}}).Result), `"a"`)
	expect(t, perform(t, worker, ojsworker.Delivery{Args: []any{"a"}}).Error.Type, "InvalidArgs")
}
