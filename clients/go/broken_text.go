package ojsworker

import (
	"encoding/json"
	"reflect"
	"unicode/utf8"
)

var marshalerType = reflect.TypeOf((*json.Marshaler)(nil)).Elem()

// textSearch looks for a string that is not UTF-8 in what was encoded well. It goes where encoding/json goes, and to each
// place once: a field that is left out of the JSON may lead back to its parent.
type textSearch struct {
	visited map[visit]bool
}

type visit struct {
	kind    reflect.Type
	address uintptr
}

// isNew notes a pointer or a map.
func (s *textSearch) isNew(value reflect.Value) bool {
	at := visit{value.Type(), value.Pointer()}
	if s.visited[at] {
		return false
	}
	if s.visited == nil {
		s.visited = map[visit]bool{}
	}
	s.visited[at] = true
	return true
}

// findsBroken is called with the depth of the JSON at this place; what is deeper than a frame may be is refused anyway.
func (s *textSearch) findsBroken(value reflect.Value, depth int) bool {
	if !value.IsValid() || depth > maxDepth || marshalsItself(value) {
		return false
	}
	switch value.Kind() {
	case reflect.String:
		return !utf8.ValidString(value.String())
	case reflect.Interface:
		return s.findsBroken(value.Elem(), depth)
	case reflect.Pointer:
		return !value.IsNil() && s.isNew(value) && s.findsBroken(value.Elem(), depth)
	case reflect.Slice, reflect.Array:
		for i := 0; i < value.Len(); i++ {
			if s.findsBroken(value.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		if !s.isNew(value) {
			return false
		}
		for entries := value.MapRange(); entries.Next(); {
			if s.findsBroken(entries.Key(), depth+1) || s.findsBroken(entries.Value(), depth+1) {
				return true
			}
		}
	case reflect.Struct:
		for i := 0; i < value.NumField(); i++ {
			if isInJSON(value.Type().Field(i)) && s.findsBroken(value.Field(i), depth+1) {
				return true
			}
		}
	}
	return false
}

// marshalsItself says whether encoding/json asks the value for its JSON: what is inside of it is its own then.
func marshalsItself(value reflect.Value) bool {
	if value.Kind() == reflect.Interface {
		return false // what is in it counts
	}
	return value.Type().Implements(marshalerType) ||
		value.CanAddr() && reflect.PointerTo(value.Type()).Implements(marshalerType)
}

func isInJSON(field reflect.StructField) bool {
	if field.Tag.Get("json") == "-" {
		return false
	}
	if field.IsExported() || !field.Anonymous {
		return field.IsExported()
	}
	// The exported fields of an embedded struct are in the JSON, whatever its own name is.
	kind := field.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return kind.Kind() == reflect.Struct
}
