package ojsworker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ojsworker"
)

// Tests with a process of its own: this program again, as the worker that the variable names.
const childVariable = "OJSWORKER_TEST_CHILD"

const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		child(name)
		return
	}
	os.Exit(m.Run())
}

func child(name string) {
	options := map[string]ojsworker.Options{"one": {Concurrency: 1}, "many": {Concurrency: 1000}}[name]
	if name == "logs" {
		ojsworker.InstallLog()
	}
	worker := ojsworker.New(options)
	worker.Handle("hang", func(_ context.Context, job *ojsworker.Job) (any, error) {
		_ = job.Heartbeat() // it has begun
		select {}
	})
	worker.Handle("wait", waitForCancel)
	worker.Handle("fail", func(context.Context, *ojsworker.Job) (any, error) { return nil, &mailboxFull{1} })
	worker.Handle("flood", func(_ context.Context, job *ojsworker.Job) (any, error) {
		for i := 1; i <= 10_000; i++ {
			if err := job.Progress(float64(i)/10_000, strings.Repeat("x", 1000), nil); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	worker.Handle("kept", func(_ context.Context, job *ojsworker.Job) (any, error) {
		if err := job.Checkpoint("saved"); err != nil {
			return nil, err
		}
		os.Exit(7)
		return nil, nil
	})
	worker.Handle("log", func(ctx context.Context, job *ojsworker.Job) (any, error) {
		log.Print("a library's line\nwith a break")
		var both sync.WaitGroup
		both.Add(1)
		go func() {
			defer both.Done()
			ojsworker.LoggerFrom(ctx).Info("by the context")
			log.Print("nobody's")
			defer job.LogHere()()
			log.Print("of a goroutine")
		}()
		both.Wait()
		ojsworker.LoggerFrom(ctx).Debug("in detail")
		return nil, nil
	})
	worker.Main()
	if name == "slow" { // a program that takes its time to end
		fmt.Println("returned")
		time.Sleep(300 * time.Millisecond)
	}
}

// fakeInit plays ojs-init for one process.
type fakeInit struct {
	t       *testing.T
	command *exec.Cmd
	conn    net.Conn
	reader  *bufio.Reader
	stderr  bytes.Buffer
	stdout  *bufio.Reader
}

func start(t *testing.T, name string, environment ...string) *fakeInit {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	f := &fakeInit{t: t, command: exec.Command(os.Args[0])}
	f.command.Env = append(append(os.Environ(), childVariable+"="+name, "OJS_SOCKET="+path, "OJS_LOG_LEVEL="), environment...)
	f.command.Stderr = &f.stderr
	stdout, err := f.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.stdout = bufio.NewReader(stdout)
	if err := f.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.command.Process.Kill() })
	_ = listener.(*net.UnixListener).SetDeadline(time.Now().Add(patience))
	if f.conn, err = listener.Accept(); err != nil {
		t.Fatal(err, f.stderr.String())
	}
	t.Cleanup(func() { f.conn.Close() })
	_ = f.conn.SetDeadline(time.Now().Add(patience))
	f.reader = bufio.NewReader(f.conn)
	return f
}

func (f *fakeInit) say(line string) {
	f.t.Helper()
	if _, err := f.conn.Write([]byte(line + "\n")); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeInit) hear() map[string]any {
	f.t.Helper()
	line, err := f.reader.ReadBytes('\n')
	if err != nil {
		f.t.Fatal(err)
	}
	var frame map[string]any
	if err := json.Unmarshal(line, &frame); err != nil {
		f.t.Fatal(err)
	}
	return frame
}

// greet says hello, and returns ready.
func (f *fakeInit) greet() map[string]any {
	f.t.Helper()
	f.say(`{"type":"hello","protocol":1,"worker_id":"w","state":"running","concurrency":5,"queues":["default"],"max_frame":4194304}`)
	return f.hear()
}

func (f *fakeInit) deliver(kind string) {
	f.t.Helper()
	f.say(`{"type":"job","job":{"id":"j1","type":"` + kind + `","queue":"mail","attempt":2,"args":["secret"],"meta":` +
		`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}`)
	f.say(`{"type":"ping","id":1}`)
	expect(f.t, f.hear()["type"], "pong")
}

func (f *fakeInit) terminate() {
	f.t.Helper()
	f.say(`{"type":"lifecycle","state":"terminate","reason":"sigterm","remaining_ms":30000}`)
}

func (f *fakeInit) signal() {
	f.t.Helper()
	if err := f.command.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
}

// status waits until the process has ended.
func (f *fakeInit) status() int {
	f.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = f.command.Process.Kill() })
	defer timer.Stop()
	var ended *exec.ExitError
	if err := f.command.Wait(); err != nil && !errors.As(err, &ended) {
		f.t.Fatal(err)
	}
	return f.command.ProcessState.ExitCode()
}

func TestConcurrencyIsWhatHelloSaysOrASmallerOption(t *testing.T) {
	for name, wanted := range map[string]float64{"default": 5, "one": 1, "many": 5} {
		f := start(t, name)
		expect(t, f.greet()["concurrency"], wanted)
		f.terminate()
		expect(t, f.status(), 0)
	}
}

func TestSIGTERMEndsAnIdleWorkerWith0(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.signal()
	expect(t, f.status(), 0)
}

func TestSIGTERMCutsOffAHandlerThatHangsAndEndsWith143(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.say(`{"type":"job","job":{"id":"j1","type":"hang"}}`)
	expect(t, f.hear()["type"], "heartbeat")
	f.signal()
	expect(t, f.status(), 143)
}

func TestSIGTERMLetsAHandlerThatLooksAtItsContextGiveItsJobBack(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.deliver("wait")
	f.signal()
	expect(t, f.hear()["type"], "ready") // it takes no more
	expect(t, f.hear(), map[string]any{"type": "release", "job_id": "j1", "reason": "shutdown"})
	expect(t, f.status(), 0)
}

func TestASIGTERMThatComesLateDoesNoHarm(t *testing.T) {
	f := start(t, "slow")
	f.greet()
	f.terminate()
	if _, err := f.stdout.ReadString('\n'); err != nil { // main has gone on
		t.Fatal(err)
	}
	f.signal()
	expect(t, f.status(), 0)
}

func TestAClosedConnectionEndsTheProcessWithAnErrorAlsoWhenAHandlerHangs(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.say(`{"type":"job","job":{"id":"j1","type":"hang"}}`)
	expect(t, f.hear()["type"], "heartbeat")
	f.conn.Close()
	expect(t, f.status(), 1)
	if !strings.Contains(f.stderr.String(), "closed the connection") {
		t.Fatal(f.stderr.String())
	}
}

func TestWhenTheSocketIsFullOnlyTheNewestProgressIsKeptAndTheReaderGoesOn(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.say(`{"type":"job","job":{"id":"j1","type":"flood","queue":"mail","attempt":2,"args":[]}}`)
	f.say(`{"type":"ping","id":1}`)
	time.Sleep(500 * time.Millisecond) // we read nothing; whatever is written then, the answer comes
	seen, hasPong := 0, false
	for {
		switch frame := f.hear(); frame["type"] {
		case "pong":
			hasPong = true
		case "progress":
			seen++
		case "ack":
			if !hasPong || seen >= 10_000 {
				t.Fatalf("%d frames of progress, a pong: %v", seen, hasPong)
			}
			return
		}
	}
}

func TestAJobWithoutATypeIsAJobWithoutAHandler(t *testing.T) {
	f := start(t, "default")
	f.greet()
	for _, kind := range []string{``, `,"type":7`, `,"type":null`} {
		f.say(`{"type":"job","job":{"id":"j1"` + kind + `,"args":[]}}`)
		answer := f.hear()
		expect(t, answer["type"], "fail")
		failed := answer["error"].(map[string]any)
		expect(t, failed["code"], "handler_not_found")
		expect(t, failed["retryable"], true)
	}
	f.say(`{"type":"job","job":{"id":"j2","type":"other"}}`)
	expect(t, f.hear()["error"].(map[string]any)["code"], "handler_not_found")
}

func TestAJobThatCannotBeReadIsNotAnsweredWhileItsHandlerRuns(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.deliver("wait")
	for _, args := range []string{"\"\xff\"", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)} {
		f.say(`{"type":"job","job":{"id":"j1","type":"wait","args":[` + args + `]}}`)
	}
	f.say(`{"type":"cancel","job_id":"j1","reason":"cancelled","grace_ms":1000}`)
	expect(t, f.hear(), map[string]any{"type": "release", "job_id": "j1", "reason": "cancelled"})
	f.say(`{"type":"job","job":{"id":"j1","type":"wait","args":["` + "\xff" + `"]}}`)
	expect(t, f.hear()["error"].(map[string]any)["code"], "invalid_job")
}

func TestAJobThatCannotBeReadIsGivenBackWhileTheWorkerEnds(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.deliver("wait")
	f.terminate()
	f.say(`{"type":"job","job":{"id":"j2","type":"wait","args":["` + "\xff" + `"]}}`)
	expect(t, f.hear(), map[string]any{"type": "release", "job_id": "j2", "reason": "the worker is ending"})
	f.say(`{"type":"cancel","job_id":"j1","reason":"shutdown","grace_ms":1000}`)
	expect(t, f.hear()["job_id"], "j1")
	expect(t, f.status(), 0)
}

func TestACheckpointIsWithOjsInitWhenCheckpointReturns(t *testing.T) {
	f := start(t, "default")
	f.greet()
	f.say(`{"type":"job","job":{"id":"j1","type":"kept","queue":"mail","attempt":2,"args":[]}}`)
	expect(t, f.status(), 7)
	expect(t, f.hear()["state"], "saved")
}

func (f *fakeInit) logged() map[string]map[string]any {
	f.t.Helper()
	lines := map[string]map[string]any{}
	for _, text := range strings.Split(strings.TrimSpace(f.stderr.String()), "\n") {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			f.t.Fatalf("%q: %v", text, err)
		}
		lines[line["message"].(string)] = line
	}
	return lines
}

func TestEachLineOfAHandlerNamesItsJobThoseOfLibrariesIncluded(t *testing.T) {
	f := start(t, "logs")
	f.greet()
	f.say(`{"type":"job","job":{"id":"j1","type":"log","queue":"mail","attempt":2,"args":[],"meta":` +
		`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}`)
	expect(t, f.hear()["type"], "ack")
	f.terminate()
	expect(t, f.status(), 0)
	lines := f.logged()
	for _, message := range []string{"a library's line\nwith a break", "by the context", "of a goroutine"} {
		line := lines[message]
		expect(t, line["ojs"], map[string]any{"job_id": "j1", "job_type": "log", "queue": "mail", "attempt": 2.0})
		expect(t, line["trace"], map[string]any{"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"})
		expect(t, line["severity"], "INFO")
		expect(t, line["severity_number"], 9.0)
		expect(t, line["category"], "worker")
		expect(t, line["component"], "handler")
	}
	expect(t, lines["nobody's"]["ojs"], nil)
	expect(t, lines["in detail"] == nil, true)
	expect(t, lines["terminate (sigterm)"]["component"], "worker")
}

func TestALevelInTheMetadataIsThatOfTheJobAlone(t *testing.T) {
	f := start(t, "logs")
	f.greet()
	f.say(`{"type":"job","job":{"id":"j1","type":"log","args":[],"meta":{"log_level":"debug","trace_id":"t1"}}}`)
	f.hear()
	f.say(`{"type":"job","job":{"id":"j2","type":"log","args":[],"meta":{"log_level":"warn"}}}`)
	f.hear()
	f.terminate()
	expect(t, f.status(), 0)
	expect(t, f.logged()["in detail"]["trace"], map[string]any{"trace_id": "t1"})
	if strings.Contains(f.stderr.String(), `"j2"`) {
		t.Fatal(f.stderr.String())
	}
}

func TestTheStackOfAFailedJobIsInTheLogAndItsArgumentsAreNot(t *testing.T) {
	for name, wanted := range map[string]string{"logs": `"stack":"`, "default": "\n    "} {
		f := start(t, name)
		f.greet()
		f.say(`{"type":"job","job":{"id":"j1","type":"fail","args":["secret"]}}`)
		expect(t, f.hear()["type"], "fail")
		f.terminate()
		expect(t, f.status(), 0)
		said := f.stderr.String()
		if !strings.Contains(said, wanted) || !strings.Contains(said, "mailbox full: 1") ||
			!strings.Contains(said, "socket_test.go") || strings.Contains(said, "secret") {
			t.Fatalf("%s: %s", name, said)
		}
	}
}
