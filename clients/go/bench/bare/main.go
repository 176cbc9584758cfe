// Command bare is a worker with the standard library alone, to compare with: it fetches and
// acknowledges jobs over HTTP. OJS_URL is the backend, CONCURRENCY how many goroutines there are,
// JOBS after how many jobs it ends.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var (
	client = &http.Client{Timeout: 30 * time.Second}
	done   atomic.Int64
)

func main() {
	concurrency, jobs := number("CONCURRENCY", 10), number("JOBS", 1000)
	client.Transport = &http.Transport{MaxIdleConnsPerHost: concurrency, MaxIdleConns: concurrency}
	var all sync.WaitGroup
	for i := 0; i < concurrency; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for done.Load() < int64(jobs) {
				work()
			}
		}()
	}
	all.Wait()
}

func number(name string, otherwise int) int {
	if value, err := strconv.Atoi(os.Getenv(name)); err == nil && value > 0 {
		return value
	}
	return otherwise
}

func work() {
	var fetched struct {
		Jobs []struct {
			ID string `json:"id"`
		} `json:"jobs"`
	}
	post("fetch", map[string]any{"queues": []string{"default"}, "count": 1, "worker_id": "bare"}, &fetched)
	if len(fetched.Jobs) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	for _, job := range fetched.Jobs {
		post("ack", map[string]any{"job_id": job.ID, "result": nil}, nil)
		done.Add(1)
	}
}

func post(what string, body, into any) {
	text, err := json.Marshal(body)
	if err != nil {
		log.Fatal(err)
	}
	response, err := client.Post(os.Getenv("OJS_URL")+"/ojs/v1/workers/"+what, "application/json", bytes.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		log.Fatal(fmt.Errorf("%s: %s %w", what, response.Status, err))
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			log.Fatal(err)
		}
	}
}
