package ojsworker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	protocolVersion = 1
	defaultMaxFrame = 4 * 1024 * 1024
	// maxDepth is how deep a frame may be nested, itself included.
	maxDepth = 100
)

// members calls found with each member of a JSON object, as they are spelled; of a doubled name the last one counts.
// It looks only as closely as it needs to: whether the values are JSON is for json.Valid to say.
func members(text []byte, found func(name string, value json.RawMessage)) error {
	at := skipSpace(text, 0)
	if at >= len(text) || text[at] != '{' {
		return errors.New("not a JSON object")
	}
	at = skipSpace(text, at+1)
	for at < len(text) && text[at] == '"' {
		end := skipString(text, at)
		var name string
		if bytes.IndexByte(text[at:end], '\\') < 0 {
			name = string(text[at+1 : atLeast(end-1, at+1)])
		} else if err := json.Unmarshal(text[at:end], &name); err != nil {
			return fmt.Errorf("no member name at byte %d", at)
		}
		at = skipSpace(text, end)
		if at >= len(text) || text[at] != ':' {
			return fmt.Errorf("no colon at byte %d", at)
		}
		at = skipSpace(text, at+1)
		end = skipValue(text, at)
		found(name, json.RawMessage(text[at:end:end]))
		at = skipSpace(text, end)
		if at >= len(text) || text[at] != ',' {
			break
		}
		at = skipSpace(text, at+1)
	}
	if at >= len(text) || text[at] != '}' || skipSpace(text, at+1) != len(text) {
		return fmt.Errorf("no end of the object at byte %d", at)
	}
	return nil
}

func atLeast(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// skipString is where the string that begins at `at` ends.
func skipString(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(text)
}

// skipValue is where the value that begins at `at` ends.
func skipValue(text []byte, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '"':
			at = skipString(text, at)
			if depth == 0 {
				return at
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return len(text)
}

// depthOf is how deep a JSON text is nested.
func depthOf(text []byte) int {
	depth, deepest := 0, 0
	for at := 0; at < len(text); {
		switch text[at] {
		case '"':
			at = skipString(text, at)
			continue
		case '[', '{':
			if depth++; depth > deepest {
				deepest = depth
			}
		case ']', '}':
			depth--
		}
		at++
	}
	return deepest
}

// encode is JSON that every parser takes: no NaN, whole characters, not nested deeper than `depth`.
func encode(value any, depth int) (text []byte, err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("%T panicked while it was encoded: %v", value, thrown)
		}
	}()
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	if !utf8.Valid(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	// encoding/json writes this escape for a byte that is no character, and for nothing else of its own.
	if bytes.Contains(text, []byte(`\ufffd`)) && (&textSearch{}).findsBroken(reflect.ValueOf(value), 0) {
		return nil, errors.New("a string in it is not valid UTF-8")
	}
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > depth && depthOf(text) > depth {
		return nil, fmt.Errorf("it is nested deeper than %d", depth)
	}
	return text, nil
}

// field is a member of a frame that is JSON already.
type field struct {
	name  string
	value []byte
}

// frame makes a line: the type, the job's id as JSON where it is about one, and more.
func frame(kind string, id []byte, fields ...field) []byte {
	size := len(kind) + len(id) + 32
	for _, f := range fields {
		size += len(f.name) + len(f.value) + 4
	}
	line := append(make([]byte, 0, size), `{"type":"`...)
	line = append(append(line, kind...), '"')
	if id != nil {
		line = append(append(line, `,"job_id":`...), id...)
	}
	for _, f := range fields {
		line = append(append(append(line, `,"`...), f.name...), `":`...)
		line = append(line, f.value...)
	}
	return append(line, "}\n"...)
}

// quoted is a text as JSON.
func quoted(text string) []byte {
	line, err := encode(text, maxDepth)
	if err != nil {
		line, _ = encode(clean(text, maxMessageChars), maxDepth)
	}
	return line
}

func stringIn(raw json.RawMessage) (text string, ok bool) {
	ok = len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil
	return text, ok
}

func integerIn(raw json.RawMessage) (number int64, ok bool) {
	number, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		// 1.0 and 1e3 are whole numbers, too.
		var float float64
		if float, err = strconv.ParseFloat(string(raw), 64); err != nil || float != float64(int64(float)) {
			return 0, false
		}
		number = int64(float)
	}
	return number, true
}

// durationIn is a number of units; not ok if it is none, or not positive.
func durationIn(raw json.RawMessage, unit time.Duration) (time.Duration, bool) {
	float, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(float > 0) {
		return 0, false
	}
	const longest = 100 * 365 * 24 * time.Hour
	if float *= float64(unit); float > float64(longest) {
		return longest, true
	}
	return time.Duration(float), true
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}
