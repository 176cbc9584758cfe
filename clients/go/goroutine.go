package ojsworker

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// Libraries log by the package log without a context, so a line is told to be of a job by the goroutine that writes it.
// Go shows the number of a goroutine only at the head of its stack; that is read once a job, and once a line while jobs
// run.
var (
	goroutines     sync.Map
	goroutineCount atomic.Int64
)

// LogHere lets what this goroutine logs by the standard package log, or by a Logger, be about this job until end is
// called. A handler's own goroutine needs none; one that a handler has started does:
//
//	go func() {
//		defer job.LogHere()()
//		...
//	}()
func (j *Job) LogHere() (end func()) { return registerGoroutine(j) }

func registerGoroutine(job *Job) (forget func()) {
	number := goroutineNumber()
	before, had := goroutines.Load(number)
	goroutines.Store(number, job)
	goroutineCount.Add(1)
	return func() {
		if had {
			goroutines.Store(number, before)
		} else {
			goroutines.Delete(number)
		}
		goroutineCount.Add(-1)
	}
}

// jobOfGoroutine is the job that this goroutine works for; nil if it is none.
func jobOfGoroutine() *Job {
	if goroutineCount.Load() == 0 {
		return nil
	}
	job, _ := goroutines.Load(goroutineNumber())
	found, _ := job.(*Job)
	return found
}

func goroutineNumber() uint64 {
	var head [40]byte
	text := bytes.TrimPrefix(head[:runtime.Stack(head[:], false)], []byte("goroutine "))
	if end := bytes.IndexByte(text, ' '); end > 0 {
		if number, err := strconv.ParseUint(string(text[:end]), 10, 64); err == nil {
			return number
		}
	}
	return 0
}
