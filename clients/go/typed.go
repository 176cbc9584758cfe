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
// an object, by name, as encoding/json does, which leaves fields that are missing as they are; an embedded struct is one
// argument. An object without any of the fields' names is the argument of the first field, where that may be an object.
// Fields at the end that are pointers may be missing. A slice takes all arguments, any other type takes the only one. Arguments that do not fit fail the job
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
		return invalidArgs("the job has %s, its handler takes %d", arguments(len(args)), len(targets))
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
	if value.Kind() != reflect.Struct || isOwn || isByName(args, value) {
		if len(args) != 1 {
			return invalidArgs("the job has %s, its handler takes one", arguments(len(args)))
		}
		return bindOne(0, args[0], target)
	}
	return bindFields(args, value)
}

// isByName says whether the only argument is an object with the struct's fields, and not the struct's only field.
func isByName(args []json.RawMessage, value reflect.Value) bool {
	if len(args) != 1 || args[0][0] != '{' || value.NumField() == 0 {
		return false
	}
	fields, least := exported(value)
	if least > 1 || len(fields) == 0 || !takesObject(fields[0].Type()) {
		return true
	}
	// As encoding/json finds it, which knows tags, cases and embedded structs: a name that is no field's is refused.
	var object map[string]json.RawMessage
	if json.Unmarshal(args[0], &object) != nil {
		return true
	}
	for name := range object {
		text, _ := json.Marshal(map[string]any{name: nil})
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if decoder.Decode(reflect.New(value.Type()).Interface()) == nil {
			return true
		}
	}
	return false
}

// takesObject says whether a JSON object may be what a value of this type is read from.
func takesObject(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(unmarshalerType) {
		return true
	}
	switch t.Kind() {
	case reflect.Map, reflect.Struct, reflect.Interface:
		return true
	case reflect.Pointer:
		return takesObject(t.Elem())
	default:
		return false
	}
}

// exported gives the fields that take arguments, and how many of them have to be there.
func exported(value reflect.Value) (fields []reflect.Value, least int) {
	for i := 0; i < value.NumField(); i++ {
		if !value.Type().Field(i).IsExported() {
			continue
		}
		fields = append(fields, value.Field(i))
		if value.Field(i).Kind() != reflect.Pointer {
			least = len(fields)
		}
	}
	return fields, least
}

func bindFields(args []json.RawMessage, value reflect.Value) error {
	fields, least := exported(value)
	if len(args) < least || len(args) > len(fields) {
		most := fmt.Sprint(least)
		if least != len(fields) {
			most = fmt.Sprintf("%d to %d", least, len(fields))
		}
		return invalidArgs("the job has %s, its handler takes %s", arguments(len(args)), most)
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

func arguments(count int) string {
	if count == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", count)
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
