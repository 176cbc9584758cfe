package ojsworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func enqueue(ctx context.Context, kind string, args []any, options map[string]any) error {
	body, err := json.Marshal(map[string]any{"type": kind, "args": args, "options": options})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", os.Getenv("OJS_URL")+"/ojs/v1/jobs", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("ENQUEUE_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("not enqueued: %s", response.Status)
	}
	return nil
}

func TestTheReadmesEnqueueSendsAJobWithItsTokenAndTellsARefusal(t *testing.T) {
	var asked, token, path string
	status := http.StatusCreated
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		asked, token, path = string(body), request.Header.Get("Authorization"), request.Method+" "+request.URL.Path
		response.WriteHeader(status)
	}))
	defer server.Close()
	t.Setenv("OJS_URL", server.URL)
	t.Setenv("ENQUEUE_TOKEN", "t0")
	if err := enqueue(context.Background(), "email.send", []any{"a@b.c"}, map[string]any{"queue": "mail"}); err != nil {
		t.Fatal(err)
	}
	expect(t, asked, `{"args":["a@b.c"],"options":{"queue":"mail"},"type":"email.send"}`)
	expect(t, token, "Bearer t0")
	expect(t, path, "POST /ojs/v1/jobs")
	status = http.StatusUnauthorized
	if err := enqueue(context.Background(), "email.send", nil, nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Fatal(err)
	}
}

func TestTheReadmeHasTheFunctionThatIsTested(t *testing.T) {
	source, err := os.ReadFile("enqueue_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, function, _ := strings.Cut(string(source), "func enqueue(")
	function, _, _ = strings.Cut(function, "\n}\n")
	if function == "" || !strings.Contains(string(readme), "func enqueue("+function+"\n}\n") {
		t.Fatal("README.md and this file have different functions")
	}
}
