package ask

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// row returns the places from first to last.
func row(first, last uint64) (places []uint64) {
	for p := first; p <= last; p++ {
		places = append(places, p)
	}
	return places
}

func TestIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		seen   Seen
		open   []uint64 // of the places 1 to 100
		isZero bool
	}{
		"nothing":                  {Seen{}, nil, true},
		"a count only":             {Seen{Count: 9}, nil, false},
		"observed":                 {Seen{}.Observe(7), []uint64{7}, false},
		"observed twice":           {Seen{}.Observe(7).Observe(7).Observe(3), []uint64{3, 7}, false},
		"above what is known":      {Seen{Count: 9, Known: 6, Open: []uint64{7}}, []uint64{7}, false},
		"undecided at what known":  {Seen{Count: 9, Known: 9, Open: []uint64{7}, Undecided: []uint64{7}}, []uint64{7}, false},
		"decided":                  {Seen{Count: 9, Known: 9, Open: []uint64{7}, Undecided: []uint64{8}}, nil, false},
		"decided at its own place": {Seen{Count: 7, Known: 7, Open: []uint64{7}}, nil, false},
		"up to":                    {Seen{Count: 9, OpenUpTo: 3}, []uint64{1, 2, 3}, false},
		"up to, partly decided":    {Seen{Count: 9, OpenUpTo: 5, Known: 4, Undecided: []uint64{2, 4}}, []uint64{2, 4, 5}, false},
		"up to, all decided":       {Seen{Count: 9, OpenUpTo: 5, Known: 9, Undecided: []uint64{6}}, nil, false},
		"a full list of undecided": {Seen{Count: 100, OpenUpTo: 70, Known: 100, Undecided: row(1, 64)}, row(1, 70), false},
		"one less is complete":     {Seen{Count: 100, OpenUpTo: 70, Known: 100, Undecided: row(1, 63)}, row(1, 63), false},
		"below a full list":        {Seen{Count: 100, OpenUpTo: 80, Known: 100, Undecided: row(10, 73)}, row(10, 80), false},
	} {
		t.Run(name, func(t *testing.T) {
			for place := uint64(1); place <= 100; place++ {
				require.Equal(t, slices.Contains(c.open, place), c.seen.IsOpen(place), "place %d", place)
			}
			require.Equal(t, c.isZero, c.seen.IsZero())
		})
	}
}

func TestLastOpen(t *testing.T) {
	require.Zero(t, Seen{Count: 9, Known: 9, Undecided: []uint64{3}}.LastOpen())
	require.EqualValues(t, 7, Seen{}.Observe(7).Observe(3).LastOpen())
	require.EqualValues(t, 9, Seen{Count: 9, OpenUpTo: 9, Open: []uint64{4}}.LastOpen())
	require.EqualValues(t, 8, Seen{Count: 9, OpenUpTo: 4, Open: []uint64{8}}.LastOpen())
}

// A merge closes the places that are known to be decided, and bounds the list of the others.
func TestMergeCloses(t *testing.T) {
	open := Seen{}.Observe(3).Observe(5)
	for name, c := range map[string]struct {
		other Seen
		want  []uint64
	}{
		"an older statement":           {State(2, nil, nil), []uint64{3, 5}},
		"the place itself, undecided":  {State(3, []uint64{3}, nil), []uint64{3, 5}},
		"one decided":                  {State(6, []uint64{5}, nil), []uint64{5}},
		"both decided":                 {State(6, nil, nil), nil},
		"both undecided":               {State(6, []uint64{3, 5}, nil), []uint64{3, 5}},
		"a third open":                 {State(6, []uint64{4, 5}, []uint64{4}), []uint64{4, 5}},
		"a count without a statement":  {Seen{Count: 90}, []uint64{3, 5}},
		"a statement below its count":  {Seen{Count: 90, Known: 4}, []uint64{5}},
		"a statement that is not last": {State(6, nil, nil).Merge(Seen{Count: 9}), nil},
	} {
		for _, got := range []Seen{open.Merge(c.other), c.other.Merge(open)} {
			require.Equal(t, c.want, slices.Clip(append([]uint64(nil), got.Open...)), name)
			require.Zero(t, got.OpenUpTo, name)
			require.Equal(t, max(5, c.other.Count), got.Count, name)
			require.Equal(t, c.other.Known, got.Known, name)
		}
	}
	require.Equal(t, []uint64{3, 5}, open.Open, "merging changes neither side")
}

func TestManyOpenPlacesAreBounded(t *testing.T) {
	var s Seen
	for _, p := range row(1, MaxPlaces) {
		s = s.Observe(10 * p)
	}
	require.Len(t, s.Open, MaxPlaces)
	require.Zero(t, s.OpenUpTo)
	s = s.Observe(5)
	require.Empty(t, s.Open)
	require.EqualValues(t, 10*MaxPlaces, s.OpenUpTo, "every place up to the last is open")
	s = s.Merge(State(10*MaxPlaces-1, nil, nil))
	require.True(t, s.IsOpen(10*MaxPlaces))
	require.False(t, s.IsOpen(10*MaxPlaces-1))
	s = s.Merge(State(10*MaxPlaces, nil, nil))
	require.Zero(t, s.OpenUpTo, "the bound goes when all up to it is decided")
	require.Zero(t, s.LastOpen())
}

func TestStateBounds(t *testing.T) {
	s := State(200, row(1, MaxPlaces), row(1, MaxPlaces))
	require.Equal(t, Seen{Count: 200, Known: 200, Undecided: row(1, MaxPlaces), Open: row(1, MaxPlaces)}, s)
	s = State(200, row(1, 100), row(31, 100))
	require.Equal(t, Seen{Count: 200, Known: 200, Undecided: row(1, MaxPlaces), OpenUpTo: 100}, s)
	for _, place := range row(31, 100) {
		require.True(t, s.IsOpen(place), "place %d", place)
	}
	require.False(t, s.IsOpen(101))
	s = State(200, row(1, 100), []uint64{90})
	require.Equal(t, []uint64{90}, s.Open)
	require.True(t, s.IsOpen(90), "it is above the list of undecided places")
	require.Equal(t, s, s.Merge(s))
}

func TestCovers(t *testing.T) {
	for name, c := range map[string]struct {
		seen, other Seen
		want        bool
	}{
		"nothing":                       {Seen{}, Seen{}, true},
		"the same":                      {Seen{}.Observe(3), Seen{}.Observe(3), true},
		"fewer entries":                 {Seen{Count: 4}, Seen{Count: 5}, false},
		"an open place":                 {Seen{Count: 5}, Seen{}.Observe(3), false},
		"decided":                       {State(5, nil, nil), Seen{}.Observe(3), true},
		"undecided, and not open":       {State(5, []uint64{3}, nil), Seen{}.Observe(3), false},
		"undecided, and open":           {State(5, []uint64{3}, []uint64{3}), Seen{}.Observe(3), true},
		"another one is open":           {State(5, []uint64{3, 4}, []uint64{4}), Seen{}.Observe(3), false},
		"up to":                         {Seen{Count: 5, OpenUpTo: 3}, Seen{Count: 5, OpenUpTo: 3}, true},
		"further up to":                 {Seen{Count: 5, OpenUpTo: 3}, Seen{Count: 5, OpenUpTo: 4}, false},
		"up to covers a list":           {Seen{Count: 5, OpenUpTo: 3}, Seen{}.Observe(3).Observe(2), true},
		"a list does not cover all":     {Seen{}.Observe(3), Seen{Count: 3, OpenUpTo: 3}, false},
		"all decided":                   {State(5, nil, nil), Seen{Count: 5, OpenUpTo: 5}, true},
		"one undecided":                 {State(5, []uint64{2}, nil), Seen{Count: 5, OpenUpTo: 5}, false},
		"decided above the full list":   {State(200, row(1, 100), nil), Seen{}.Observe(150), false},
		"decided below the full list":   {State(200, row(100, 199), nil), Seen{}.Observe(50), true},
		"decided, fewer entries though": {State(5, nil, nil), Seen{Count: 9, Open: []uint64{3}}, false},
	} {
		require.Equal(t, c.want, c.seen.Covers(c.other), name)
	}
}

func TestSeenRoundTrip(t *testing.T) {
	for _, s := range []Seen{
		{},
		{Count: 1, Known: 1},
		{Count: 1<<64 - 1},
		{Count: 1<<64 - 1, Known: 1<<64 - 1, Open: []uint64{1, 1<<64 - 1}, Undecided: []uint64{1<<64 - 1}},
		{Count: 100, Known: 99, OpenUpTo: 100, Open: row(37, 100), Undecided: row(1, MaxPlaces)},
		State(200, row(1, 100), row(31, 100)),
	} {
		r := varint.NewReader(s.Append(nil))
		require.Equal(t, s, ReadSeen(r))
		require.NoError(t, r.Done())
	}
}

func TestMalformedSeen(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":                        {},
		"no fields":                    {9},
		"an unknown field":             {9, seenFields},
		"a list that is cut":           {9, hasOpen, 2, 1},
		"a long list":                  append([]byte{200, 1, hasOpen, MaxPlaces + 1}, slices.Repeat([]byte{1}, MaxPlaces+1)...),
		"place 0":                      {9, hasOpen, 1, 0},
		"a place twice":                {9, hasOpen, 2, 4, 0},
		"places that wrap around":      {9, hasOpen, 2, 8, 249, 255, 255, 255, 255, 255, 255, 255, 255, 1},
		"an open place above Count":    {9, hasOpen, 1, 10},
		"OpenUpTo above Count":         {9, hasOpenUpTo, 10},
		"undecided above Known":        {9, hasUndecided | isNotCurrent, 1, 8, 2},
		"Known below 0":                {9, isNotCurrent, 10},
		"a long list of the undecided": append([]byte{200, 1, hasUndecided, MaxPlaces + 1}, slices.Repeat([]byte{1}, MaxPlaces+1)...),
	} {
		r := varint.NewReader(b)
		ReadSeen(r)
		require.Error(t, r.Done(), name)
	}
	for name, b := range map[string][]byte{
		"no entries":        {},
		"too many":          append(varint.AppendUint(nil, uint64(MaxPartitions+1)), make([]byte, 2*MaxPartitions+2)...),
		"more than there":   {3, 1, 0, 1, 0},
		"a forged count":    {255, 255, 3},
		"a malformed entry": {1, 9, 16},
	} {
		r := varint.NewReader(b)
		ReadVector(r)
		require.Error(t, r.Done(), name)
	}
}

func FuzzReadSeen(f *testing.F) {
	for _, v := range [][]byte{sample()[0].Append(nil), sample()[2].Append(nil), State(200, row(1, 100), row(31, 100)).Append(nil)} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := varint.NewReader(b)
		s := ReadSeen(r)
		if r.Err() != nil {
			return
		}
		r = varint.NewReader(s.Append(nil))
		require.Equal(t, s, ReadSeen(r))
		require.NoError(t, r.Done())
		_ = s.LastOpen()
		require.True(t, s.Covers(s))
		merged := s.Merge(s)
		for _, place := range slices.Concat(s.Open, s.Undecided, []uint64{s.OpenUpTo, s.Known}) {
			require.Equal(t, s.IsOpen(place), merged.IsOpen(place))
		}
	})
}

func FuzzReadVector(f *testing.F) {
	f.Add(sample().Append(nil), counts(1, 0, 300).Append(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var vectors [2]Vector
		for i, data := range [][]byte{a, b} {
			r := varint.NewReader(data)
			vectors[i] = ReadVector(r)
			if r.Done() != nil {
				return
			}
			r = varint.NewReader(vectors[i].Append(nil))
			require.Equal(t, vectors[i], ReadVector(r))
			require.NoError(t, r.Done())
		}
		one := vectors[0].Clone().Merge(vectors[1])
		require.Len(t, one, max(len(vectors[0]), len(vectors[1])))
		for i := range one {
			a, b := vectors[0].Of(uint16(i)), vectors[1].Of(uint16(i))
			if require.Equal(t, max(a.History, b.History), one[i].History); a.History == b.History {
				require.Equal(t, max(a.Count, b.Count), one[i].Count)
			}
			require.LessOrEqual(t, len(one[i].Open), MaxPlaces)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add(Proofs{{Vector: sample(), Tag: []byte("t")}, {Vector: counts(1)}}.Token())
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseToken(text); err == nil {
			again, err := ParseToken(v.Token())
			require.NoError(t, err)
			require.Equal(t, v, again)
		}
	})
}

func FuzzReadProgress(f *testing.F) {
	at := multicast.Position{Final: 9, ID: multicast.MessageID{Sender: 7, Seq: 8}}
	f.Add(AppendProgress(nil, multicast.Progress{{Class: multicast.ClassOf([]multicast.GroupID{0, 2}), Position: at}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := varint.NewReader(b)
		if p := ReadProgress(r); r.Done() == nil {
			r = varint.NewReader(AppendProgress(nil, p))
			require.Equal(t, p, ReadProgress(r))
			require.NoError(t, r.Done())
		}
	})
}

// A list that is flagged as present has places: otherwise one Seen has two encodings, and the decoded Seen
// differs from the one read again.
func TestAListThatIsPresentIsNotEmpty(t *testing.T) {
	for _, b := range [][]byte{{9, hasOpen, 0}, {9, hasUndecided, 0}} {
		r := varint.NewReader(b)
		s := ReadSeen(r)
		if r.Done() == nil {
			require.Equal(t, s, ReadSeen(varint.NewReader(s.Append(nil))))
		}
	}
}

// A merge covers both sides, also when the bound of many open places was passed and all up to it is decided.
func TestCoversAllThatIsDecided(t *testing.T) {
	many := Seen{Count: 100, OpenUpTo: 90}
	later := State(200, []uint64{150}, nil)
	merged := many.Merge(later)
	require.Zero(t, merged.LastOpen())
	require.True(t, merged.Covers(many), "all places up to 90 are decided at 200")
}
