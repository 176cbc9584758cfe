package ojstest_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"ojsworker/ojstest"
)

func TestAJobIsEnqueuedAndLookedAt(t *testing.T) {
	server, err := ojstest.StartDevServer()
	if errors.Is(err, ojstest.ErrNoDevServer) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	id, err := server.Enqueue("email.send", []any{"a@b.c"}, map[string]any{"queue": "mail"})
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	job, err := server.Job(id)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal([]any{job["type"], job["args"], job["queue"], job["state"]})
	if wanted := `["email.send",["a@b.c"],"mail","available"]`; string(text) != wanted {
		t.Fatalf("got %s, wanted %s", text, wanted)
	}
	if _, err := server.Job("no-such-job"); err == nil {
		t.Fatal("a job that is not there was found")
	}
}

func TestWithoutTheProgramTheErrorSaysWhatToDo(t *testing.T) {
	t.Setenv("OJS_DEVSERVER", "/nonexistent/ojs-devserver")
	_, err := ojstest.StartDevServer()
	if !errors.Is(err, ojstest.ErrNoDevServer) {
		t.Fatal(err)
	}
}

func TestAProgramThatEndsAtOnceIsAnError(t *testing.T) {
	t.Setenv("OJS_DEVSERVER", "/bin/false")
	if _, err := os.Stat("/bin/false"); err != nil {
		t.Skip(err)
	}
	if _, err := ojstest.StartDevServer(); err == nil || errors.Is(err, ojstest.ErrNoDevServer) {
		t.Fatal(err)
	}
}
