package ojsworker_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	ojsworker "ojs-init.example/ojsworker"
)

func TestTheCodeOfTheReadmeWorks(t *testing.T) {
	worker := ojsworker.New(ojsworker.Options{})
	users, mailed := []string{"ann", "bob"}, 0
	render := func(context.Context) (string, error) { return "/tmp/report", nil }
	mail := func(_ context.Context, _, _ string) error { mailed++; return nil }
	worker.Handle("report.send", func(ctx context.Context, job *ojsworker.Job) (any, error) {
		path, err := ojsworker.Step(job, "render", func() (string, error) { return render(ctx) })
		if err != nil {
			return nil, err
		}
		return path, ojsworker.Iterate(job, users, func(user string) error { return mail(ctx, user, path) })
	})
	worker.Handle("email.send", func(context.Context, *ojsworker.Job) (any, error) { return nil, nil })
	outcome, err := worker.Perform("email.send", "ann@example.org", "hello") // outcome.Outcome is "ack"
	if err != nil || outcome.Outcome != "ack" {
		t.Fatal(outcome, err)
	}
	outcome, err = worker.Perform("report.send")
	if err != nil || string(outcome.Result) != `"/tmp/report"` || mailed != 2 {
		t.Fatal(outcome, mailed, err)
	}
}

// The section "Enqueueing" is run by clients/fixtures/enqueue.py.
func TestTheCodeOfTheReadmeIsThatOfTestsAndExamples(t *testing.T) {
	known := ""
	for _, name := range []string{"example_test.go", "examples/readme/main.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		known += string(text)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(block[1], "func enqueue(") && !strings.Contains(withoutIndent(known), withoutIndent(block[1])) {
			t.Errorf("no test and no example has this code:\n%s", block[1])
		}
	}
}

func withoutIndent(code string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "")
}
