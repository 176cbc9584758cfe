package ojsworker

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxPlainDigits is how long a whole number may be to be spelled without an exponent.
const maxPlainDigits = 100

// canonical is a JSON value in one spelling: a backend that parses what it keeps may give 10 back as 10.0 or 1e1.
func canonical(text json.RawMessage) string {
	var value any
	if decode(text, &value) != nil {
		return string(text)
	}
	same, err := encode(canonicalNumbers(value), maxDepth)
	if err != nil {
		return string(text)
	}
	return string(same)
}

// canonicalNumbers spells all numbers in what decode has made anew.
func canonicalNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		return json.Number(canonicalNumber(string(v)))
	case []any:
		for i := range v {
			v[i] = canonicalNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = canonicalNumbers(v[name])
		}
	}
	return value
}

// canonicalNumber is a JSON number in one spelling. It works on the digits, so it is exact, and an exponent costs nothing.
func canonicalNumber(text string) string {
	mantissa, exponent := text, 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[at+1:]); err != nil {
			return text
		}
		mantissa = text[:at]
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	exponent -= len(fraction)
	significant := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	switch {
	case exponent >= 0 && exponent <= maxPlainDigits-len(significant):
		return sign + significant + strings.Repeat("0", exponent)
	case exponent < 0 && len(significant)+exponent > 0:
		at := len(significant) + exponent
		return sign + significant[:at] + "." + significant[at:]
	}
	return sign + significant + "e" + strconv.Itoa(exponent)
}
