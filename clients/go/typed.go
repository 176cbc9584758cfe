package ojsworker

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// None is the Result of a typed handler that has none, or the Args of one that takes none.
type None struct{}

// HandleTyped registers a handler whose arguments and result have types of their own.
//
// Args is a struct: its exported fields take the arguments in their order, or, where the job has one argument that is
// an object, by name, as encoding/json does; an embedded struct is one argument. Fields at the end that are pointers may
// be missing. A slice takes all arguments, any other type takes the only one. Arguments that do not fit fail the job
// for good with the type InvalidArgs; the message names the place and quotes no value.
//
// Result is anything that encoding/json takes; None if there is none.
func HandleTyped[Args, Result any](w *Worker, kind string,
	handler func(ctx context.Context, job *Job, args Args) (Result, error)) {
	if !isFunction(handler) {
		panic(fmt.Sprintf("ojsworker: the handler of %q is nil", kind))
	}
	w.register(kind, func(ctx context.Context, job *Job) (any, error) {
		var args Args
		if err := job.bindInto(&args); err != nil {
			return nil, err
		}
		result, err := handler(ctx, job, args)
		if err != nil {
			return nil, err
		}
		return result, nil
	}, handler)
}

// Bind stores the arguments in what the pointers point to, one for each argument; nil skips one. The error is a
// *Discard of the type InvalidArgs.
func (j *Job) Bind(targets ...any) error {
	args, err := j.splitArgs()
	if err != nil {
		return err
	}
	if len(args) != len(targets) {
		return invalidArgs("the job has %d arguments, its handler takes %d", len(args), len(targets))
	}
	for i, target := range targets {
		if target == nil {
			continue
		}
		if err := bindOne(i, args[i], target); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) splitArgs() ([]json.RawMessage, error) {
	var args []json.RawMessage
	if err := json.Unmarshal(j.rawArgs, &args); err != nil {
		return nil, invalidArgs("the arguments are no array")
	}
	return args, nil
}

var (
	unmarshalerType = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()
	textType        = reflect.TypeOf((*encoding.TextUnmarshaler)(nil)).Elem()
)

// bindInto stores all arguments in one value, as HandleTyped says.
func (j *Job) bindInto(target any) error {
	args, err := j.splitArgs()
	if err != nil {
		return err
	}
	value := reflect.ValueOf(target).Elem()
	isOwn := reflect.PointerTo(value.Type()).Implements(unmarshalerType) || reflect.PointerTo(value.Type()).Implements(textType)
	if value.Kind() == reflect.Slice && !isOwn && value.Type().Elem().Kind() != reflect.Uint8 {
		value.Set(reflect.MakeSlice(value.Type(), len(args), len(args)))
		for i := range args {
			if err := bindOne(i, args[i], value.Index(i).Addr().Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	isObject := len(args) == 1 && args[0][0] == '{'
	if value.Kind() != reflect.Struct || isOwn || isObject && value.NumField() > 0 {
		if len(args) != 1 {
			return invalidArgs("the job has %d arguments, its handler takes one", len(args))
		}
		return bindOne(0, args[0], target)
	}
	return bindFields(args, value)
}

func bindFields(args []json.RawMessage, value reflect.Value) error {
	var fields []reflect.Value
	least := 0
	for i := 0; i < value.NumField(); i++ {
		if !value.Type().Field(i).IsExported() {
			continue
		}
		fields = append(fields, value.Field(i))
		if value.Field(i).Kind() != reflect.Pointer {
			least = len(fields)
		}
	}
	if len(args) < least || len(args) > len(fields) {
		return invalidArgs("the job has %d arguments, its handler takes %d to %d", len(args), least, len(fields))
	}
	for i := range args {
		if err := bindOne(i, args[i], fields[i].Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}

func bindOne(at int, text json.RawMessage, target any) error {
	if err := decode(text, target); err != nil {
		return invalidArgs("argument %d of the job %s", at+1, withoutValue(err, target))
	}
	return nil
}

func invalidArgs(format string, values ...any) error {
	return &Discard{Message: fmt.Sprintf(format, values...), Type: "InvalidArgs"}
}

// withoutValue says what is wrong with a value and does not quote it: it may be somebody's secret.
func withoutValue(err error, target any) string {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		where := ""
		if mismatch.Field != "" {
			where = " (in " + mismatch.Field + ")"
		}
		return fmt.Sprintf("is a JSON %s, which does not fit into %s%s", kind, mismatch.Type, where)
	}
	return fmt.Sprintf("does not fit into %s (%T)", reflect.TypeOf(target).Elem(), err)
}

// decode reads one JSON text with exact numbers: where nothing says which type is wanted they are json.Number.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more follows the JSON value")
	}
	return nil
}
