package ojsworker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// stalledPeer is an ojs-init that does not read from the moment on at which it has delivered its job.
type stalledPeer struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

// stall delivers a job to a worker with one handler, and reads nothing until hear is called.
func stall(t *testing.T, handler Handler) *stalledPeer {
	t.Helper()
	worker := New(Options{Log: NewLogger(io.Discard, LevelInfo)})
	worker.Handle("test", handler)
	worker.prepare()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	_ = ours.SetDeadline(time.Now().Add(30 * time.Second))
	session := newSession(worker, theirs, context.Background())
	session.out.patience = 20 * time.Millisecond
	session.start()
	p := &stalledPeer{t, ours, bufio.NewReader(ours)}
	p.say(`{"type":"hello","protocol":1,"worker_id":"w","state":"running","concurrency":1,"queues":[],"max_frame":4194304}`)
	if kind := p.hear().Type; kind != "ready" {
		t.Fatalf("%s came before ready", kind)
	}
	p.say(`{"type":"job","job":{"id":"j1","type":"test"}}`)
	return p
}

func (p *stalledPeer) say(line string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(line + "\n")); err != nil {
		p.t.Fatal(err)
	}
}

type heard struct {
	Type  string          `json:"type"`
	State json.RawMessage `json:"state"`
}

func (p *stalledPeer) hear() heard {
	p.t.Helper()
	line, err := p.reader.ReadBytes('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	var frame heard
	if err := json.Unmarshal(line, &frame); err != nil {
		p.t.Fatal(err)
	}
	return frame
}

// lastStateBefore reads up to the frame of that type, and gives the newest checkpoint before it.
func (p *stalledPeer) lastStateBefore(kind string) string {
	p.t.Helper()
	state := ""
	for {
		frame := p.hear()
		switch frame.Type {
		case kind:
			return state
		case "checkpoint":
			state = string(frame.State)
		}
	}
}

// untilFull lets the one writer have something to write that nobody reads.
func untilFull(job *Job) error { return job.Progress(0.5, "", nil) }

func TestAStepOrAPositionThatCouldNotBeSavedIsSavedBeforeTheAnswer(t *testing.T) {
	for wanted, work := range map[string]func(job *Job) error{
		`{"ojs_resume":1,"steps":[["pay","paid"]],"cursors":{},"state":null}`: func(job *Job) error {
			_, err := Step(job, "pay", func() (string, error) { return "paid", untilFull(job) })
			return err
		},
		`{"ojs_resume":1,"steps":[],"cursors":{"":1},"state":"mine"}`: func(job *Job) error {
			if err := Iterate(job, []int{0, 1}, func(int) error { return nil }); err != nil {
				return err
			}
			if err := untilFull(job); err != nil {
				return err
			}
			return job.Checkpoint("mine")
		},
	} {
		for kind, answer := range map[string]error{"fail": errors.New("it is not saved"), "release": &Release{}} {
			work, answer := work, answer
			saved := make(chan error, 1)
			peer := stall(t, func(_ context.Context, job *Job) (any, error) {
				saved <- work(job)
				return nil, answer
			})
			if err := <-saved; !errors.Is(err, ErrStalled) {
				t.Fatalf("the saving ended with %v", err)
			}
			if state := peer.lastStateBefore(kind); state != wanted {
				t.Fatalf("before the %s came %q, wanted %s", kind, state, wanted)
			}
		}
	}
}

func TestAStateThatStalledIsSentOnceMoreBeforeTheAnswer(t *testing.T) {
	saved := make(chan error, 1)
	peer := stall(t, func(_ context.Context, job *Job) (any, error) {
		if err := untilFull(job); err != nil {
			return nil, err
		}
		saved <- job.Checkpoint("mine")
		return nil, errors.New("it is not saved")
	})
	if err := <-saved; !errors.Is(err, ErrStalled) {
		t.Fatalf("the saving ended with %v", err)
	}
	if state := peer.lastStateBefore("fail"); state != `"mine"` {
		t.Fatalf("before the fail came %q", state)
	}
}

func TestAStepWhoseSavingStalledDoesNotRunAgainWhenItIsCalledAgain(t *testing.T) {
	ran := 0
	saved := make(chan error, 2)
	peer := stall(t, func(_ context.Context, job *Job) (any, error) {
		pay := func() error {
			_, err := Step(job, "pay", func() (string, error) { ran++; return "paid", untilFull(job) })
			return err
		}
		saved <- pay()
		saved <- pay()
		return nil, errors.New("it is not saved")
	})
	for i := 0; i < 2; i++ {
		if err := <-saved; !errors.Is(err, ErrStalled) {
			t.Fatalf("the saving ended with %v", err)
		}
	}
	wanted := `{"ojs_resume":1,"steps":[["pay","paid"]],"cursors":{},"state":null}`
	if state := peer.lastStateBefore("fail"); state != wanted || ran != 1 {
		t.Fatalf("it ran %d times, and before the fail came %q", ran, state)
	}
}
