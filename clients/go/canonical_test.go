package ojsworker

import "testing"

func TestNumbersAreTheSameByTheirExactValue(t *testing.T) {
	for wanted, spellings := range map[string][]string{
		"0":                        {"0", "-0", "0.0", "0e99999999999999", "-0.00e5"},
		"10":                       {"10", "10.0", "1e1", "1E+1", "0.1e2", "100e-1"},
		"-2.5":                     {"-2.5", "-25e-1", "-0.25e1", "-2.500"},
		"9007199254740993":         {"9007199254740993", "9007199254740993.0", "9007199254740993e0"},
		"9007199254740992":         {"9007199254740992.00"},
		"5e-3":                     {"0.005", "5e-3", "0.5e-2"},
		"1e999999999":              {"1e999999999", "10e999999998"},
		"1e99999999999999999999":   {"1e99999999999999999999"},
		"1000000000000000000000.5": {"1000000000000000000000.5"},
	} {
		for _, text := range spellings {
			if got := canonical([]byte(text)); got != wanted {
				t.Errorf("%s: got %s, wanted %s", text, got, wanted)
			}
		}
	}
}
