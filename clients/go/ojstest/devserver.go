// Package ojstest starts ojs-devserver, an Open Job Spec backend in memory, for tests that want a real one. Tests of
// handlers need none: Worker.Perform runs them.
package ojstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	programVariable = "OJS_DEVSERVER"
	program         = "ojs-devserver"
	startPatience   = 10 * time.Second
	requestPatience = 10 * time.Second
	endPatience     = 5 * time.Second
	maxBody         = 16 << 20
)

// ErrNoDevServer: there is no ojs-devserver on PATH, and $OJS_DEVSERVER names none. A test may skip then.
var ErrNoDevServer = errors.New("no ojs-devserver")

// DevServer is a running one.
type DevServer struct {
	// URL is what OJS_URL of ojs-init has to be.
	URL string

	command *exec.Cmd
	folder  string
	ended   chan struct{}
	output  *bytes.Buffer
}

// StartDevServer starts one on a free port of this machine, with more arguments of its command line if you like. Close
// ends it.
func StartDevServer(args ...string) (*DevServer, error) {
	name := os.Getenv(programVariable)
	if name == "" {
		name = program
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %v; put %s on PATH, or let %s name it", ErrNoDevServer, err, program, programVariable)
	}
	folder, err := os.MkdirTemp("", "ojs-devserver-")
	if err != nil {
		return nil, err
	}
	portFile := filepath.Join(folder, "url")
	server := &DevServer{folder: folder, ended: make(chan struct{}), output: &bytes.Buffer{}}
	server.command = exec.Command(path, append([]string{"--listen", "127.0.0.1:0", "--port-file", portFile}, args...)...)
	server.command.Stdout, server.command.Stderr = server.output, server.output
	if err := server.command.Start(); err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("%s does not start: %w", path, err)
	}
	go func() {
		_ = server.command.Wait()
		close(server.ended)
	}()
	if err := server.awaitURL(portFile); err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

func (s *DevServer) awaitURL(portFile string) error {
	deadline := time.Now().Add(startPatience)
	for time.Now().Before(deadline) {
		if text, err := os.ReadFile(portFile); err == nil && strings.HasSuffix(string(text), "\n") {
			s.URL = strings.TrimSpace(string(text))
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s has ended at once: %s", program, strings.TrimSpace(s.output.String()))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s has not said its address within %v", program, startPatience)
}

// Enqueue adds a job, with options as the specification has them (queue, retry, timeout_ms and so on) or nil, and
// returns its id.
func (s *DevServer) Enqueue(kind string, args []any, options map[string]any) (id string, err error) {
	if args == nil {
		args = []any{}
	}
	body := map[string]any{"type": kind, "args": args}
	if options != nil {
		body["options"] = options
	}
	var answer struct {
		Job struct {
			ID string `json:"id"`
		} `json:"job"`
	}
	err = s.request(http.MethodPost, "/ojs/v1/jobs", body, &answer)
	return answer.Job.ID, err
}

// Job is everything about a job as the server has it: state, result, attempt and so on.
func (s *DevServer) Job(id string) (map[string]any, error) {
	var answer struct {
		Job map[string]any `json:"job"`
	}
	err := s.request(http.MethodGet, "/ojs/v1/jobs/"+url.PathEscape(id), nil, &answer)
	return answer.Job, err
}

func (s *DevServer) request(method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, strings.TrimSpace(string(answer)))
	}
	return json.Unmarshal(answer, into)
}

// Close ends the server; all its jobs are gone.
func (s *DevServer) Close() {
	_ = s.command.Process.Signal(os.Interrupt)
	select {
	case <-s.ended:
	case <-time.After(endPatience):
		_ = s.command.Process.Kill()
		<-s.ended
	}
	_ = os.RemoveAll(s.folder)
}
