package ojsworker

import (
	"bufio"
	"errors"
	"net"
	"testing"
	"time"
)

// waitUntil looks again and again until it is so.
func waitUntil(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !isSo(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// stalledOutbox is one whose other end has not read yet: it is writing the line "first".
func stalledOutbox(t *testing.T) (*outbox, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	_ = ours.SetDeadline(time.Now().Add(30 * time.Second))
	out := newOutbox(func() {})
	out.fullAfter = 0
	go out.run(theirs)
	t.Cleanup(out.close)
	if err := out.send([]byte("first\n"), false); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "it writes", func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return out.writing
	})
	return out, ours
}

func queueLine(t *testing.T, out *outbox, line string) *outgoing {
	t.Helper()
	item, err := out.put(&outgoing{data: []byte(line), done: make(chan struct{})}, false)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func expectLines(t *testing.T, conn net.Conn, lines ...string) {
	t.Helper()
	reader := bufio.NewReader(conn)
	for _, wanted := range lines {
		if line, err := reader.ReadString('\n'); line != wanted {
			t.Fatalf("got %q (%v), wanted %q", line, err, wanted)
		}
	}
}

func TestWhoWaitsTooLongDoesNotTakeBackTheNewerTextOfAnother(t *testing.T) {
	out, conn := stalledOutbox(t)
	item := queueLine(t, out, "older\n")
	version, isIn := out.replace(item, []byte("newer\n"))
	if !isIn {
		t.Fatal("the newer text did not take its place")
	}
	if err := out.await(item, 0, time.Millisecond); !errors.Is(err, ErrStalled) {
		t.Fatalf("the first one got %v", err)
	}
	newer := make(chan error, 1)
	go func() { newer <- out.await(item, version, time.Minute) }()
	expectLines(t, conn, "first\n", "newer\n")
	if err := <-newer; err != nil {
		t.Fatalf("the second one got %v", err)
	}
}

func TestWhoseTextWasReplacedLearnsThatTheNewerOneWasTakenBack(t *testing.T) {
	out, conn := stalledOutbox(t)
	item := queueLine(t, out, "older\n")
	version, _ := out.replace(item, []byte("newer\n"))
	older := make(chan error, 1)
	go func() { older <- out.await(item, 0, time.Minute) }()
	if err := out.await(item, version, time.Millisecond); !errors.Is(err, ErrStalled) {
		t.Fatalf("the second one got %v", err)
	}
	if err := <-older; !errors.Is(err, ErrStalled) {
		t.Fatalf("the first one got %v", err)
	}
	if _, isIn := out.replace(item, []byte("newest\n")); isIn {
		t.Fatal("a frame that was taken back took another text")
	}
	queueLine(t, out, "last\n")
	expectLines(t, conn, "first\n", "last\n")
}

func TestNobodyWaitsForEverForAFrameThatIsHalfWritten(t *testing.T) {
	out, conn := stalledOutbox(t)
	item := queueLine(t, out, "half\n")
	// Of the second writing only a part is read, so it never ends.
	if _, err := conn.Read(make([]byte, len("first\n"))); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := out.await(item, 0, time.Millisecond); !errors.Is(err, ErrStalled) {
		t.Fatalf("the error is %v", err)
	}
}
