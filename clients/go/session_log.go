package ojsworker

import "time"

// logPatience is how long the end waits for a line that is being logged; a writer that hangs does not keep it.
const logPatience = 100 * time.Millisecond

// note is a line for the log that waits until the session's lock is open.
type note struct {
	job     *Job
	level   Level
	message string
}

// note keeps a line for the log; with the lock held. The program's own writer of the log may ask the worker something,
// which takes the lock, so nothing is logged under it.
func (s *session) note(job *Job, level Level, message string) {
	s.notes = append(s.notes, note{job, level, message})
}

// unlock opens the lock and logs what was noted under it. Whoever may have noted something opens it by this.
func (s *session) unlock() {
	notes := s.notes
	s.notes = nil
	if len(notes) > 0 {
		s.logging++
	}
	s.mu.Unlock()
	if len(notes) == 0 {
		return
	}
	for _, line := range notes {
		s.log.of(line.job).log(line.level, line.message, nil)
	}
	s.mu.Lock()
	s.logging--
	s.mu.Unlock()
	s.wake()
}

// awaitLog lets the reader log the line with which all ends, for the process may end the next moment.
func (s *session) awaitLog() {
	timer := time.NewTimer(logPatience)
	defer timer.Stop()
	for s.isLogging() {
		select {
		case <-s.changed:
		case <-timer.C:
			return
		}
	}
}

func (s *session) isLogging() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logging > 0
}
