// Behaves as a worker on the Go SDK does, with its faults. What the variables mean: tests/README.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

type job struct {
	ID      string            `json:"id"`
	Type    string            `json:"type"`
	Queue   string            `json:"queue"`
	Attempt int               `json:"attempt"`
	Args    []json.RawMessage `json:"args"`
}

var (
	base        = strings.TrimRight(os.Getenv("OJS_URL"), "/") + "/ojs/v1"
	token       = os.Getenv("OJS_AUTH_TOKEN")
	directory   = os.Getenv("SDK_DIRECTORY")
	poll        = time.Duration(setting("SDK_POLL_MS", 1000)) * time.Millisecond
	heartbeat   = time.Duration(setting("SDK_HEARTBEAT_MS", 5000)) * time.Millisecond
	grace       = time.Duration(setting("SDK_GRACE_MS", 25000)) * time.Millisecond
	concurrency = setting("SDK_CONCURRENCY", 10)
	workerID    = fmt.Sprintf("worker_%d_%d", os.Getpid(), time.Now().UnixNano())

	lock  sync.Mutex
	held  = map[string]bool{}
	state = "running"
)

func setting(name string, usual int) int {
	if value, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return value
	}
	return usual
}

func note(word, id string, attempt int) {
	if directory == "" {
		return
	}
	var now syscall.Timespec
	const monotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0)
	if journal, err := os.OpenFile(directory+"/journal", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err == nil {
		fmt.Fprintf(journal, "%d %s %s %d\n", now.Nano(), word, id, attempt)
		journal.Close()
	}
}

// The default client: it keeps connections, has no time-out, and repeats nothing that was sent.
func post(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/openjobspec+json")
	request.Header.Set("Accept", "application/openjobspec+json")
	request.Header.Set("OJS-Version", "1.0.0-rc.1")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	var read any = answer
	if reply.StatusCode >= 400 || answer == nil {
		read = new(any)
	}
	err = json.NewDecoder(reply.Body).Decode(read)
	if reply.StatusCode >= 400 {
		return fmt.Errorf("status %d", reply.StatusCode)
	}
	return err
}

func number(args []json.RawMessage, index int) int {
	value := 0
	if index < len(args) {
		json.Unmarshal(args[index], &value)
	}
	return value
}

func handle(ctx context.Context, j job) (any, error) {
	if j.Type == "ok" && len(j.Args) > 0 {
		return j.Args[0], nil
	}
	time.Sleep(time.Duration(number(j.Args, 0)) * time.Millisecond)
	if j.Type == "enqueue" && len(j.Args) > 1 {
		body := map[string]any{"type": j.Args[1], "args": j.Args[2:], "queue": j.Queue}
		if err := post(ctx, "/jobs", body, nil); err != nil {
			return nil, err
		}
	}
	switch j.Type {
	case "fail":
		return nil, errors.New("failed as told")
	case "large":
		return map[string]any{"text": strings.Repeat("x", number(j.Args, 1))}, nil
	}
	return map[string]any{"slept": number(j.Args, 0)}, nil
}

func run(ctx context.Context, j job) {
	where := directory
	if where == "" {
		where = os.TempDir()
	}
	file, err := os.OpenFile(where+"/job-"+j.ID, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err == nil && syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		note("took", j.ID, j.Attempt)
	} else {
		note("overlap", j.ID, j.Attempt)
	}
	result, err := handle(ctx, j)
	file.Close()
	note("ended", j.ID, j.Attempt)
	word, path, body := "acked", "/workers/ack", map[string]any{"job_id": j.ID, "result": result}
	if err != nil {
		failure := map[string]any{"code": "handler_error", "message": err.Error(), "retryable": true}
		word, path, body = "failed", "/workers/nack", map[string]any{"job_id": j.ID, "error": failure}
	}
	// The worker's own context: after SIGTERM it is over, and nothing is sent.
	if err := post(ctx, path, body, nil); err != nil {
		note("unreported", j.ID, j.Attempt)
		fmt.Fprintf(os.Stderr, "job %s: %v\n", j.ID, err)
	} else {
		note(word, j.ID, j.Attempt)
	}
	lock.Lock()
	delete(held, j.ID)
	lock.Unlock()
}

func fetch(ctx context.Context) {
	for ctx.Err() == nil {
		lock.Lock()
		free, is := concurrency-len(held), state
		lock.Unlock()
		var reply struct{ Jobs []job }
		if free > 0 && is == "running" {
			body := map[string]any{"queues": []string{"default"}, "count": free, "worker_id": workerID}
			if err := post(ctx, "/workers/fetch", body, &reply); err != nil {
				fmt.Fprintf(os.Stderr, "fetch: %v\n", err)
			}
		}
		for _, j := range reply.Jobs {
			lock.Lock()
			held[j.ID] = true
			lock.Unlock()
			go run(ctx, j)
		}
		if len(reply.Jobs) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(poll):
			}
		}
	}
}

func ids() ([]string, string) {
	lock.Lock()
	defer lock.Unlock()
	found := []string{}
	for id := range held {
		found = append(found, id)
	}
	return found, state
}

func beats(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(heartbeat):
		}
		active, is := ids()
		body := map[string]any{"worker_id": workerID, "state": is, "active_jobs": len(active), "active_job_ids": active}
		var reply struct{ State string }
		if err := post(ctx, "/workers/heartbeat", body, &reply); err != nil {
			fmt.Fprintf(os.Stderr, "heartbeat: %v\n", err)
			continue
		}
		lock.Lock()
		if state != "terminate" && (reply.State == "running" || reply.State == "quiet" || reply.State == "terminate") {
			// It waits for its context alone: after a terminate it goes on without fetching.
			state = reply.State
		}
		lock.Unlock()
	}
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	// Longest that a worker is there that nobody ends.
	if life := setting("SDK_LIFE_S", 0); life > 0 {
		time.AfterFunc(time.Duration(life)*time.Second, func() { os.Exit(9) })
	}
	if directory != "" {
		if alive, err := os.OpenFile(directory+"/alive", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err == nil {
			syscall.Flock(int(alive.Fd()), syscall.LOCK_SH)
			defer alive.Close()
		}
	}
	note("started", strconv.Itoa(os.Getpid()), 0)
	go fetch(ctx)
	go beats(ctx)
	<-ctx.Done()
	note("terminated", strconv.Itoa(os.Getpid()), 0)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if active, _ := ids(); len(active) == 0 {
			break
		}
	}
}
