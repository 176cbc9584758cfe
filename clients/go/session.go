package ojsworker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	protocolVersion = 1
	// closedGrace is the time for the cleanup code of handlers after ojs-init closed the
	// connection.
	closedGrace = 250 * time.Millisecond
	// maxQueued is how many frames about the connection may wait; ojs-init needs one or two at a
	// time.
	maxQueued = 100
	// noJob is the id of no job. ojs-init answers a heartbeat for it once it has read what came
	// before.
	noJob = "ojs-worker-stop"
)

// jobID finds the id in front of a job that encoding/json refuses. Beyond that nobody knows whose
// an "id" is.
var jobID = regexp.MustCompile(`^\{"type":"job","job_id":("(?:[^"\\]|\\.)*")`)

// frame is one of ojs-init or of the worker, of any type but ready. Type and JobID come first,
// because ojs-init reads these also where the rest of an answer is too long or broken.
type frame struct {
	Type        string          `json:"type"`
	JobID       string          `json:"job_id,omitempty"`
	ID          json.RawMessage `json:"id,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       *Failure        `json:"error,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	AfterMS     int64           `json:"after_ms,omitempty"`
	Progress    *float64        `json:"progress,omitempty"`
	Message     string          `json:"message,omitempty"`
	Data        any             `json:"data,omitempty"`
	State       json.RawMessage `json:"state,omitempty"`
	Job         json.RawMessage `json:"job,omitempty"`
	Checkpoint  json.RawMessage `json:"checkpoint,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	Code        string          `json:"code,omitempty"`
	Protocol    float64         `json:"protocol,omitempty"`
	Concurrency int             `json:"concurrency,omitempty"`
	RemainingMS *float64        `json:"remaining_ms,omitempty"`
	MaxFrame    int64           `json:"max_frame,omitempty"`
}

// encode makes JSON on one line, without the line break.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), err
}

// decode reads JSON. Numbers are json.Number where nothing says which type is wanted.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func isNull(text json.RawMessage) bool { return len(text) == 0 || string(text) == "null" }

// session is one connection to ojs-init and the jobs that it holds. Run and Perform use it.
type session struct {
	options  *Options
	handlers map[string]Handler
	conn     net.Conn
	log      *slog.Logger
	// values is the parent of the handlers' contexts.
	values context.Context
	// queue has ready and pong, which nobody waits for.
	queue chan any
	// lines has what the reader logs: it does not wait for a log that nobody reads.
	lines chan func()
	// over gets the result of Run.
	over chan error
	// maxFrame is the longest frame that ojs-init takes, in bytes without the line break; 0 before
	// hello.
	maxFrame atomic.Int64
	// stopping is closed when ojs-init begins to shut the worker down.
	stopping chan struct{}

	mu sync.Mutex
	// held has the jobs whose answer is not written.
	held map[string]*Job
	// isReady: a ready was queued. isDrained: no more jobs are asked for, and none is on its way.
	isReady, isDrained, isTerminating, isClosed bool
	// stopsAt is when ojs-init cancels what is left; zero while that is unknown.
	stopsAt time.Time
	// lost is the result of Run once the connection is closed.
	lost error
}

func newSession(ctx context.Context, w *Worker, conn net.Conn) *session {
	return &session{options: &w.options, handlers: w.chains(), conn: conn, log: w.logger(), values: context.WithoutCancel(ctx),
		queue: make(chan any, maxQueued), lines: make(chan func(), maxQueued), over: make(chan error, 1), stopping: make(chan struct{}),
		held: map[string]*Job{}}
}

// read takes frames until the connection is closed. It never waits for a handler or for a write,
// because ojs-init expects that the worker reads all the time.
func (s *session) read() {
	go func() {
		for frame := range s.queue {
			_ = s.send(frame)
		}
	}()
	go func() {
		for line := range s.lines {
			line()
		}
	}()
	defer close(s.lines)
	lines := bufio.NewReaderSize(s.conn, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			s.onClosed()
			return
		}
		var got frame
		if err := json.Unmarshal(line, &got); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
			s.refuse(line)
			s.logLater(slog.LevelWarn, "a frame of ojs-init is ignored: it is no JSON object", "bytes", len(line))
			continue
		}
		s.onFrame(&got)
	}
}

// refuse fails a job that encoding/json refuses, because it is nested too deep for it.
func (s *session) refuse(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var id string
	if found := jobID.FindSubmatch(line); found != nil && json.Unmarshal(found[1], &id) == nil {
		why := &Failure{Code: "invalid_job", Type: "UnreadableJob", Message: "encoding/json cannot read the job"}
		s.enqueue(&frame{Type: "fail", JobID: id, Error: why})
	}
}

func (s *session) onFrame(got *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch got.Type {
	case "hello":
		s.onHello(got)
	case "job":
		if job := newJob(s, got.Job, got.Checkpoint, got.Traceparent); job != nil {
			s.held[job.ID] = job
			go s.process(job)
		}
	case "cancel":
		if job := s.held[got.JobID]; job != nil {
			job.cancel(&Cancelled{Reason: got.Reason})
		}
	case "lifecycle":
		s.onLifecycle(got)
	case "ping":
		s.enqueue(&frame{Type: "pong", ID: got.ID})
	case "error":
		s.onError(got)
	}
}

// onHello, onLifecycle, enqueue and endIfDone are called with the lock.
func (s *session) onHello(got *frame) {
	if got.Protocol != protocolVersion {
		s.end(fmt.Errorf("%w: version %v; this package speaks %d", ErrProtocol, got.Protocol, protocolVersion))
		return
	}
	s.maxFrame.Store(got.MaxFrame)
	if limit := s.options.Concurrency; limit > 0 {
		got.Concurrency = min(got.Concurrency, limit)
	}
	ready := s.ready(got.Concurrency)
	if line, err := encode(ready); err == nil && got.MaxFrame > 0 && int64(len(line)) > got.MaxFrame {
		s.end(fmt.Errorf("ojsworker: the ready with the job types has %d bytes, and ojs-init takes %d (worker.max_frame)",
			len(line), got.MaxFrame))
		return
	}
	if !s.isDrained {
		s.isReady = true
		s.enqueue(ready)
	}
	s.onLifecycle(got)
}

func (s *session) onLifecycle(got *frame) {
	if string(got.State) != `"terminate"` {
		return
	}
	if !s.isTerminating {
		s.isTerminating = true
		close(s.stopping)
	}
	if s.stopsAt.IsZero() && got.RemainingMS != nil {
		s.stopsAt = time.Now().Add(time.Duration(*got.RemainingMS) * time.Millisecond)
	}
	s.endIfDone()
}

func (s *session) onError(got *frame) {
	if got.JobID == noJob {
		s.isDrained = true
		s.endIfDone()
		return
	}
	level := slog.LevelWarn
	if slices.Contains([]string{"lost", "not_held", "not_offered"}, got.Code) {
		// These are usual: an answer after a cancel, and a backend that saves no checkpoints.
		level = slog.LevelDebug
	}
	s.logLater(level, "ojs-init refuses a frame", "code", clip(got.Code), "reason", clip(got.Message),
		"job_id", clip(got.JobID))
	if got.Code == "unsupported_protocol" {
		s.end(ErrProtocol)
	}
}

// process runs the handler and answers after it has ended, also by a panic or runtime.Goexit.
func (s *session) process(job *Job) {
	var result any
	err := errors.New("the handler ended its goroutine: runtime.Goexit or t.FailNow")
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{Value: value, Stack: panicStack()}
		}
		s.answer(job, s.conclude(job, result, err))
	}()
	for _, jobType := range []string{job.Type, anyType} {
		if handler := s.handlers[jobType]; handler != nil && job.Type != "" {
			result, err = handler(job.ctx, job)
			return
		}
	}
	err = &Retry{Message: "this worker has no handler for the type of the job", Code: "handler_not_found"}
}

func (s *session) answer(job *Job, answer *frame) {
	_ = job.send(answer, true)
	job.cancel(ErrAnswered)
	s.mu.Lock()
	defer s.mu.Unlock()
	// ojs-init may have sent the same id again right after the answer: that job stays.
	if s.held[job.ID] == job {
		delete(s.held, job.ID)
	}
	s.endIfDone()
}

func (s *session) send(frame any) error {
	line, err := encode(frame)
	if err != nil {
		return err
	}
	return s.write(line)
}

func (s *session) write(line []byte) error {
	// A net.Conn has a mutex around each Write, so frames stay whole.
	_, err := s.conn.Write(append(line, '\n'))
	return err
}

// logLater lets another goroutine log a line, unless too many wait. Only the reader calls it.
func (s *session) logLater(level slog.Level, text string, about ...any) {
	select {
	case s.lines <- func() { s.log.Log(s.values, level, text, about...) }:
	default:
	}
}

// enqueue lets another goroutine write a frame.
func (s *session) enqueue(frame any) {
	if !s.isClosed && len(s.queue) < cap(s.queue) {
		s.queue <- frame
	}
}

func (s *session) ready(concurrency int) map[string]any {
	ready := map[string]any{"type": "ready", "protocol": protocolVersion, "concurrency": concurrency, "ping": true, "ok": false,
		"client": "ojs-worker-go/" + Version}
	if s.handlers[anyType] == nil {
		types := []string{}
		for jobType := range s.handlers {
			types = append(types, jobType)
		}
		ready["types"] = types
	}
	return ready
}

// drain takes no more jobs and ends the session once all are answered.
func (s *session) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isReady && !s.isTerminating {
		// Jobs may be on their way until ojs-init has read that no more are taken.
		s.enqueue(s.ready(0))
		s.enqueue(&frame{Type: "heartbeat", JobID: noJob})
		return
	}
	s.isDrained = true
	s.endIfDone()
}

func (s *session) endIfDone() {
	if len(s.held) == 0 && (s.isClosed || s.isDrained || s.isTerminating) {
		s.end(s.lost)
	}
}

// end lets Run return. The first result counts.
func (s *session) end(err error) {
	select {
	case s.over <- err:
	default:
	}
}

// onClosed cancels all handlers and ends the session, at the latest after closedGrace.
func (s *session) onClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isClosed = true
	close(s.queue)
	if len(s.held) > 0 {
		s.lost = fmt.Errorf("%w while %d jobs were held", ErrConnectionLost, len(s.held))
		time.AfterFunc(closedGrace, func() { s.end(s.lost) })
	}
	for _, job := range s.held {
		job.cancel(&Cancelled{Reason: "lost"})
	}
	s.endIfDone()
}
