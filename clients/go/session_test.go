package ojsworker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait; a test that passes does not wait so long.
const patience = 10 * time.Second

// server plays ojs-init for one worker.
type server struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
	over  chan error
}

func serve(t *testing.T, ctx context.Context, worker *Worker) *server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	t.Setenv("OJS_SOCKET", path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := &server{t: t, over: make(chan error, 1)}
	go func() { s.over <- worker.Run(ctx) }()
	if s.conn, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	_ = s.conn.SetDeadline(time.Now().Add(patience))
	s.lines = bufio.NewReader(s.conn)
	s.write(`{"type":"hello","protocol":1,"state":"running","concurrency":10}`)
	s.expect(`"type":"ready"`)
	return s
}

func (s *server) write(line string) { fmt.Fprintln(s.conn, line) }

func (s *server) job(id string) { s.write(`{"type":"job","job":{"id":"` + id + `","type":"t"}}`) }

func (s *server) expect(part string) string {
	s.t.Helper()
	line, err := s.lines.ReadString('\n')
	if strings.Contains(line, `"heartbeat","job_id":"ojs-worker-stop"`) {
		s.write(`{"type":"error","code":"not_held","message":"no","job_id":"ojs-worker-stop"}`)
		return s.expect(part)
	}
	if err != nil || !strings.Contains(line, part) {
		s.t.Fatalf("%q instead of %q (%v)", line, part, err)
	}
	return line
}

func (s *server) end() error {
	s.t.Helper()
	select {
	case err := <-s.over:
		return err
	case <-time.After(patience):
		s.t.Fatal("Run has not returned")
		return nil
	}
}

func TestAContextThatIsDoneTakesNoMoreJobsAndLetsTheHeldOnesFinish(t *testing.T) {
	finish := make(chan struct{})
	worker, _ := testWorker(func(ctx context.Context, _ *Job) (any, error) { <-finish; return ctx.Err() == nil, nil })
	ctx, cancel := context.WithCancel(context.Background())
	s := serve(t, ctx, worker)
	s.job("1")
	s.write(`{"type":"ping","id":1}`)
	s.expect(`"pong","id":1`)
	cancel()
	s.expect(`"concurrency":0`)
	close(finish)
	s.expect(`{"type":"ack","job_id":"1","result":true}`)
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func TestAClosedSocketCancelsTheHandlersAndEndsEvenIfOneHangs(t *testing.T) {
	reasons := make(chan string, 1)
	worker := New(Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	worker.Handle("hangs", func(context.Context, *Job) (any, error) { select {} })
	worker.Handle("t", func(ctx context.Context, job *Job) (any, error) {
		<-ctx.Done()
		reasons <- job.CancelReason()
		return nil, ctx.Err()
	})
	s := serve(t, context.Background(), worker)
	s.job("1")
	s.write(`{"type":"job","job":{"id":"2","type":"hangs"}}`)
	s.write(`{"type":"ping","id":1}`)
	s.expect("pong")
	s.conn.Close()
	if reason := <-reasons; reason != "lost" {
		t.Error(reason)
	}
	if err := s.end(); !errors.Is(err, ErrConnectionLost) {
		t.Error(err)
	}
}

func TestAClosedSocketWithoutAJobIsNoError(t *testing.T) {
	worker, _ := testWorker(func(context.Context, *Job) (any, error) { return nil, nil })
	s := serve(t, context.Background(), worker)
	s.conn.Close()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// blocked is a log that nobody reads.
type blocked struct{}

func (blocked) Write([]byte) (int, error) { select {} }

func TestALogThatNobodyReadsStopsNoPongAndNoCancel(t *testing.T) {
	worker := New(Options{Log: slog.New(slog.NewTextHandler(blocked{}, nil))})
	worker.Handle("t", func(ctx context.Context, _ *Job) (any, error) { <-ctx.Done(); return nil, nil })
	s := serve(t, context.Background(), worker)
	s.job("1")
	for i := 0; i < 2*maxQueued; i++ {
		s.write(`{"type":"error","code":"x_later","message":"no"}`)
		s.write("no frame")
	}
	s.write(`{"type":"ping","id":1}`)
	s.expect("pong")
	s.write(`{"type":"cancel","job_id":"1","reason":"cancelled"}`)
	s.expect("ack")
}

func TestNothingIsSentAboutAJobBehindItsAnswer(t *testing.T) {
	jobs := make(chan *Job, 1)
	worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) { jobs <- job; return nil, nil })
	s := serve(t, context.Background(), worker)
	s.job("1")
	s.expect("ack")
	job := <-jobs
	<-job.ctx.Done()
	if err := job.Progress(0.5, "", nil); !errors.Is(err, ErrAnswered) {
		t.Error(err)
	}
	s.job("1")
	s.expect("ack")
}

func TestFieldsOfAnEnvelopeAreKnownByTheirExactNames(t *testing.T) {
	worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) { return append(job.Args, job.Attempt, job.Meta), nil })
	s := serve(t, context.Background(), worker)
	s.write(`{"type":"job","job":{"id":"a","type":"t","args":[7],"attempt":2,"ID":"b","Type":"u","Args":[8],"Attempt":3,"Meta":{"x":1}}}`)
	s.expect(`"job_id":"a","result":[7,2,{}]`)
	s.write(`{"type":"job","job":{"id":"c","type":"t","args":null,"attempt":null,"meta":null}}`)
	s.expect(`"job_id":"c","result":[-1,{}]`)
}

func TestFramesOfManyGoroutinesStayWhole(t *testing.T) {
	worker, _ := testWorker(func(_ context.Context, job *Job) (any, error) {
		var all sync.WaitGroup
		for i := 0; i < 20; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				_ = job.Progress(0.5, strings.Repeat("x", 100_000), nil)
			}()
		}
		all.Wait()
		return nil, nil
	})
	s := serve(t, context.Background(), worker)
	s.job("1")
	for i := 0; i < 20; i++ {
		var got frame
		if err := json.Unmarshal([]byte(s.expect("progress")), &got); err != nil || len(got.Message) != 100_000 {
			t.Fatal(err)
		}
	}
	s.expect("ack")
}

func TestRunSaysWhatIsWrongWithItsSurroundings(t *testing.T) {
	worker, _ := testWorker(func(context.Context, *Job) (any, error) { return nil, nil })
	t.Setenv("OJS_SOCKET", "")
	if err := worker.Run(context.Background()); !errors.Is(err, ErrNotUnderOjsInit) || !strings.Contains(err.Error(), "Run it as: ojs-init -- ./") {
		t.Error(err)
	}
	t.Setenv("OJS_SOCKET", "/nowhere")
	if err := worker.Run(context.Background()); !errors.Is(err, ErrNotUnderOjsInit) || !strings.Contains(err.Error(), "/nowhere") {
		t.Error(err)
	}
	if err := New(Options{}).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "no handler") {
		t.Error(err)
	}
}

func TestEachLineOfAJobHasItsFieldsAndItsLevel(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(LogHandler(slog.NewJSONHandler(&text, nil))).With("app", "a")
	worker, _ := testWorker(func(ctx context.Context, job *Job) (any, error) {
		log.InfoContext(ctx, "said")
		log.DebugContext(ctx, "hidden")
		return nil, nil
	})
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for level, expected := range map[string]string{"": "said", "error": "", "debug": "said hidden", "nonsense": "said"} {
		text.Reset()
		perform(t, worker, Delivery{Meta: map[string]any{"log_level": level, "traceparent": trace}})
		var said []string
		for _, line := range strings.Split(strings.TrimSpace(text.String()), "\n") {
			if line == "" {
				continue
			}
			var record struct {
				Message string `json:"msg"`
				App     string
				OJS     map[string]any
				Trace   map[string]string
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			about := fmt.Sprint(record.App, record.OJS, record.Trace["span_id"])
			if about != "amap[attempt:1 job_id:test-job job_type:t queue:default]b7ad6b7169203331" {
				t.Error(about)
			}
			said = append(said, record.Message)
		}
		if got := strings.Join(said, " "); got != expected {
			t.Errorf("%q: %q", level, got)
		}
	}
}
