package ojsworker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// Delivery is a job for PerformDelivery, and what happens while it runs.
type Delivery struct {
	// Type decides which handler takes it.
	Type string
	// Args are anything that is JSON.
	Args []any
	// ID, Queue and Attempt are "test-job", "default" and 1 if they are not there.
	ID      string
	Queue   string
	Attempt int
	// Meta is the job's metadata.
	Meta map[string]any
	// Checkpoint is what an earlier attempt saved, as Outcome.Checkpoints has it; nil for none.
	Checkpoint any
	// Timeout is that of the job: it is cancelled then. 0 for none.
	Timeout time.Duration
	// Stop lets the worker be shut down: as the handler begins, with the time StopIn left. Then the job is cancelled.
	Stop   bool
	StopIn time.Duration
	// Cancel is a reason to cancel the job with, CancelAfter its handler has begun; "" for none.
	Cancel      string
	CancelAfter time.Duration
	// Patience is how long the handler may take to end after a cancel; 0: 5 s.
	Patience time.Duration
	// GiveUpAfter is how long the handler may take without a cancel, from its begin on; 0: 60 s; less than 0: for ever.
	// A Timeout, StopIn or CancelAfter that is to be seen has to be shorter.
	GiveUpAfter time.Duration
}

// Outcome is what became of a job.
type Outcome struct {
	// Outcome is ack, fail or release.
	Outcome string
	// Result is that of an ack; nil if there is none. BindResult reads it.
	Result json.RawMessage
	// Error is that of a fail.
	Error *JobError
	// Reason is that of a release.
	Reason string
	// Checkpoints are all that were saved, in their order.
	Checkpoints []json.RawMessage
	// Progress is all that was said.
	Progress []Progress
	// Heartbeats is how many there were.
	Heartbeats int
}

// JobError is what the backend would be told about an error.
type JobError struct {
	Message   string         `json:"message"`
	Code      string         `json:"code"`
	Type      string         `json:"type"`
	Retryable bool           `json:"retryable"`
	Details   map[string]any `json:"details"`
	Backtrace []string       `json:"backtrace"`
}

// Progress is one call of Job.Progress.
type Progress struct {
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
	Data     json.RawMessage `json:"data"`
}

// BindResult stores the result in what the pointer points to.
func (o *Outcome) BindResult(into any) error {
	if o.Outcome != "ack" {
		return fmt.Errorf("the job has no result: its outcome is %s", o.Outcome)
	}
	if isNull(o.Result) {
		return nil
	}
	return decode(o.Result, into)
}

// LastCheckpoint is the newest one, for Delivery.Checkpoint of the next attempt; nil if there is none.
func (o *Outcome) LastCheckpoint() any {
	if len(o.Checkpoints) == 0 {
		return nil
	}
	return o.Checkpoints[len(o.Checkpoints)-1]
}

// Perform runs a handler as ojs-init would have it, for tests: the same code serves the socket. Arguments and result
// go through JSON; middleware, errors, panics and unknown types are as always.
//
//	outcome, err := worker.Perform("email.send", "a@b.c", "hello")
//
// The error is about the test: arguments that are no JSON, a handler that does not end. That of the job is in the
// outcome.
func (w *Worker) Perform(kind string, args ...any) (*Outcome, error) {
	return w.PerformDelivery(Delivery{Type: kind, Args: args})
}

// PerformDelivery is Perform for a job with a timeout, a checkpoint, a cancel or a shutdown.
func (w *Worker) PerformDelivery(delivery Delivery) (*Outcome, error) {
	line, err := delivery.frame()
	if err != nil {
		return nil, err
	}
	w.prepare()
	ours, theirs := net.Pipe()
	session := newSession(w, theirs, context.Background())
	// A test sees all that is said.
	session.out.fullAfter, session.out.fullFrom = writeTimeout, maxWaiting
	session.begun = make(chan struct{})
	session.start()
	served := make(chan error, 1)
	go func() { served <- session.serve(&control{}) }()
	r := &rehearsal{session: session, conn: ours, lines: make(chan []byte), delivery: delivery, outcome: &Outcome{},
		done: make(chan struct{})}
	defer ours.Close()
	defer close(r.done)
	go r.read()
	if err := r.play(line); err != nil {
		return nil, err
	}
	r.say(`{"type":"lifecycle","state":"terminate","reason":"control","remaining_ms":0}`)
	return r.outcome, <-served
}

func (d *Delivery) frame() ([]byte, error) {
	job := map[string]any{"id": d.ID, "type": d.Type, "queue": d.Queue, "attempt": d.Attempt, "args": d.Args}
	if d.ID == "" {
		job["id"] = "test-job"
	}
	if d.Queue == "" {
		job["queue"] = "default"
	}
	if d.Attempt == 0 {
		job["attempt"] = 1
	}
	if d.Args == nil {
		job["args"] = []any{}
	}
	if d.Meta != nil {
		job["meta"] = d.Meta
	}
	if d.Timeout > 0 {
		job["timeout_ms"] = float64(d.Timeout) / float64(time.Millisecond)
	}
	text, err := encode(job, maxDepth-1)
	if err != nil {
		return nil, fmt.Errorf("the arguments or the metadata of the job are not JSON: %w", err)
	}
	fields := []field{{"job", text}}
	if d.Checkpoint != nil {
		if text, err = encode(d.Checkpoint, maxDepth-1); err != nil {
			return nil, fmt.Errorf("the checkpoint of the job is not JSON: %w", err)
		}
		fields = append(fields, field{"checkpoint", text})
	}
	return frame("job", nil, fields...), nil
}

// rehearsal plays ojs-init for one job.
type rehearsal struct {
	session  *session
	conn     net.Conn
	lines    chan []byte
	done     chan struct{}
	delivery Delivery
	outcome  *Outcome
}

func (r *rehearsal) read() {
	defer close(r.lines)
	reader := bufio.NewReader(r.conn)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return
		}
		select {
		case r.lines <- line:
		case <-r.done:
			return
		}
	}
}

func (r *rehearsal) say(line string) { _, _ = r.conn.Write([]byte(line + "\n")) }

var errRehearsal = errors.New("the worker closed its connection to the test")

// play delivers the job and waits for its answer.
func (r *rehearsal) play(job []byte) error {
	r.say(fmt.Sprintf(`{"type":"hello","protocol":1,"worker_id":"test","state":"running","concurrency":1,"queues":["default"],`+
		`"max_frame":%d}`, defaultMaxFrame))
	if _, ok := <-r.lines; !ok { // ready
		return errRehearsal
	}
	// The handler begins only when all that comes with its job has come.
	r.session.slots <- struct{}{}
	_, _ = r.conn.Write(job)
	if r.delivery.Stop {
		r.say(fmt.Sprintf(`{"type":"lifecycle","state":"terminate","reason":"sigterm","remaining_ms":%d}`,
			r.delivery.StopIn.Milliseconds()))
	}
	r.say(`{"type":"ping","id":1}`)
	isOver, err := r.until("pong")
	<-r.session.slots
	if isOver || err != nil {
		return err
	}
	_, err = r.until("")
	return err
}

// until reads until a frame of that type, or the answer, comes.
func (r *rehearsal) until(kind string) (isOver bool, err error) {
	d := &r.delivery
	var timeout, stop, cancel, patience, giveUp <-chan time.Time
	begun := r.session.begun
	if kind != "" {
		begun = nil
	}
	for {
		reason := ""
		select {
		case line, ok := <-r.lines:
			if !ok {
				return false, errRehearsal
			}
			found, isOver, err := r.take(line)
			if isOver || err != nil || found == kind {
				return isOver, err
			}
		case <-begun:
			begun = nil
			timeout, stop = timerIf(d.Timeout > 0, d.Timeout), timerIf(d.Stop, d.StopIn)
			cancel = timerIf(d.Cancel != "", d.CancelAfter)
			giveUp = timerIf(d.GiveUpAfter >= 0, d.giveUpAfter())
		case <-timeout:
			reason = "timeout"
		case <-stop:
			reason = "shutdown"
		case <-cancel:
			reason = d.Cancel
		case <-patience:
			return false, fmt.Errorf("the handler of %s has not ended within %v of its cancel", d.Type, d.patience())
		case <-giveUp:
			return false, fmt.Errorf("the handler of %s has not ended within %v: see where it hangs, or give it longer by "+
				"Delivery.GiveUpAfter", d.Type, d.giveUpAfter())
		}
		if reason != "" {
			r.cancel(reason)
			giveUp = nil
			if patience == nil {
				patience = time.After(d.patience())
			}
		}
	}
}

func timerIf(isWanted bool, after time.Duration) <-chan time.Time {
	if !isWanted {
		return nil
	}
	return time.After(after)
}

func (d *Delivery) patience() time.Duration {
	if d.Patience > 0 {
		return d.Patience
	}
	return 5 * time.Second
}

func (d *Delivery) giveUpAfter() time.Duration {
	if d.GiveUpAfter != 0 {
		return d.GiveUpAfter
	}
	return 60 * time.Second
}

func (r *rehearsal) cancel(reason string) {
	id := r.delivery.ID
	if id == "" {
		id = "test-job"
	}
	line := frame("cancel", quoted(id), field{"reason", quoted(reason)}, field{"grace_ms", []byte("1000")})
	_, _ = r.conn.Write(line)
}

// take notes what a frame says.
func (r *rehearsal) take(line []byte) (kind string, isOver bool, err error) {
	var said struct {
		Type   string          `json:"type"`
		Result json.RawMessage `json:"result"`
		Error  *JobError       `json:"error"`
		Reason string          `json:"reason"`
		State  json.RawMessage `json:"state"`
		Progress
	}
	if err := decode(line, &said); err != nil {
		return "", false, fmt.Errorf("a frame of the worker cannot be read: %w", err)
	}
	switch said.Type {
	case "ack", "fail", "release":
		r.outcome.Outcome = said.Type
		r.outcome.Result, r.outcome.Error, r.outcome.Reason = said.Result, said.Error, said.Reason
		return said.Type, true, nil
	case "checkpoint":
		r.outcome.Checkpoints = append(r.outcome.Checkpoints, said.State)
	case "progress":
		r.outcome.Progress = append(r.outcome.Progress, said.Progress)
	case "heartbeat":
		r.outcome.Heartbeats++
	}
	return said.Type, false, nil
}
