package figures

import (
	"bytes"
	"encoding/xml"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func draw(f Figure) (string, error) {
	var b bytes.Buffer
	err := f.WriteSVG(&b)
	return b.String(), err
}

func TestSVG(t *testing.T) {
	f := Figure{
		Title: "A title", X: Axis{Label: "across"}, Y: Axis{Label: "up", Log: true},
		Curves: []Curve{
			{Name: "one", Marks: true, Points: []Point{{1, 3}, {2, 4}}},
			{Name: "two", Style: 1, Points: []Point{{1, 400}}},
		},
	}
	svg, err := draw(f)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal([]byte(svg), &struct {
		XMLName xml.Name `xml:"svg"`
	}{}))
	for _, text := range []string{">A title<", ">across<", ">up<", ">one<", ">two<", ">2<", ">500<"} {
		require.Contains(t, svg, text)
	}
	again, err := draw(f)
	require.NoError(t, err)
	require.Equal(t, svg, again)
}

func TestNothingToShow(t *testing.T) {
	_, err := draw(Figure{Title: "empty", Y: Axis{Log: true}})
	require.NoError(t, err)
}

// A point is an error if the library would panic because of it, or draw it wrongly.
func TestNotOnTheAxes(t *testing.T) {
	for _, at := range []Point{{0, 1}, {-1, 1}, {1, math.NaN()}, {math.Inf(1), 1}} {
		_, err := draw(Figure{Title: "bad", X: Axis{Log: true}, Curves: []Curve{{Name: "c", Points: []Point{at}}}})
		require.ErrorContains(t, err, `figure "bad": curve "c"`)
	}
}

func TestDecades(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		first     string
		last      string
		count     int
	}{
		{0.3, 3.4, "0.2", "5", 13}, // 0.2 to 0.9, 1 to 5
		{80, 164, "50", "200", 7},  // 50 to 90, 100, 200
		{100, 100, "100", "200", 2},
	} {
		ticks := decades(c.low, c.high)
		require.Len(t, ticks, c.count)
		require.Equal(t, []string{c.first, c.last}, []string{ticks[0].Label, ticks[len(ticks)-1].Label})
	}
}
