package ojsworker_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ojsworker"
)

// logWriter does something at each line that the worker logs, and keeps the line.
type logWriter struct {
	mu    sync.Mutex
	lines strings.Builder
	each  func()
}

func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	w.lines.Write(line)
	w.mu.Unlock()
	w.each()
	return len(line), nil
}

// playLogged lets a worker log all that it has to say about its jobs and its ojs-init, up to the end of the connection.
func playLogged(t *testing.T, newWorker func(log *ojsworker.Logger, path string) *ojsworker.Worker, writer *logWriter) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	worker := newWorker(ojsworker.NewLogger(writer, ojsworker.LevelDebug), path)
	worker.Handle("wait", waitForCancel)
	worker.Handle("fail", func(context.Context, *ojsworker.Job) (any, error) { return nil, errors.New("boom") })
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	_ = listener.(*net.UnixListener).SetDeadline(time.Now().Add(patience))
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	f := &fakeInit{t: t, conn: conn, reader: bufio.NewReader(conn)}
	f.say(`{"type":"hello","protocol":1,"worker_id":"w","state":"quiet","concurrency":5,"queues":[],"max_frame":4194304}`)
	expect(t, f.hear()["type"], "ready")
	f.say(`{"type":"job","job":{"id":"j1","type":"wait"}}`)
	f.say(`{"type":"lifecycle","state":"running","reason":"sigcont"}`)
	for _, code := range []string{"not_held", "invalid_frame", "not_offered", "refused", "unavailable"} {
		f.say(`{"type":"error","code":"` + code + `","message":"about ` + code + `","job_id":"other"}`)
	}
	f.say(`{"type":"job","job":{"id":"j2","type":"fail"}}`)
	expect(t, f.hear()["type"], "fail")
	f.say(`{"type":"cancel","job_id":"j1","reason":"cancelled","grace_ms":1000}`)
	expect(t, f.hear()["type"], "release")
	f.say(`{"type":"job","job":{"id":"j3","type":"wait"}}`)
	f.say(`{"type":"ping","id":1}`)
	expect(t, f.hear()["type"], "pong")
	conn.Close()
	select {
	case err = <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if !errors.Is(err, ojsworker.ErrConnectionLost) {
		t.Fatalf("it ended with %v", err)
	}
	writer.mu.Lock()
	defer writer.mu.Unlock()
	for _, message := range []string{"quiet (at start)", "running (sigcont)", "about not_held", "about invalid_frame",
		"about not_offered", "about refused", "about unavailable", "the job failed", "the job is cancelled: cancelled",
		"1 jobs are abandoned", "the job is cancelled: lost"} {
		if !strings.Contains(writer.lines.String(), message) {
			t.Errorf("%q is not in the log: %s", message, writer.lines.String())
		}
	}
}

func TestTheWriterOfTheLogMayAskTheWorker(t *testing.T) {
	var worker *ojsworker.Worker
	playLogged(t, func(log *ojsworker.Logger, path string) *ojsworker.Worker {
		worker = ojsworker.New(ojsworker.Options{SocketPath: path, IgnoreSignals: true, Log: log})
		return worker
	}, &logWriter{each: func() { _ = worker.State() }})
}

func TestAWriterOfTheLogThatPanicsEndsNeitherTheWorkerNorAJob(t *testing.T) {
	playLogged(t, func(log *ojsworker.Logger, path string) *ojsworker.Worker {
		return ojsworker.New(ojsworker.Options{SocketPath: path, IgnoreSignals: true, Log: log})
	}, &logWriter{each: func() { panic("in the log") }})
}
