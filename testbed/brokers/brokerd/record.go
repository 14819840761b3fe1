package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/nsqio/nsq/nsqd"
)

const headerBytes = 24 // of our messages: number int64, publisher int32, flags int32, intended instant int64

// row is what is kept of one message.
type row struct {
	message, publisher, stampNs, arrivedNs, readAtNs, releasedAtNs int64
}

// record keeps a topic's messages in the order in which they took tokens. Its rows are made
// beforehand; what finds no room is counted. A nil record keeps nothing.
type record struct {
	rows    []row
	used    int
	dropped int64
}

func newRecord(rows int) *record { return &record{rows: make([]row, rows)} }

// checkRows is whether there is memory for a topic's new record, beside the others': the run has announced how much.
func (in *ingress) checkRows(wanting *topic, rows int) error {
	others := 0
	for _, t := range in.all() {
		if t != wanting {
			t.mutex.Lock()
			if t.record != nil {
				others += len(t.record.rows)
			}
			t.mutex.Unlock()
		}
	}
	if rows <= 0 || rows > in.rowsMaximum-others {
		return fmt.Errorf("%d rows: the run has announced %d (-rows), and others have %d", rows, in.rowsMaximum, others)
	}
	return nil
}

// arrival gives a message its row. The caller holds the topic's mutex, as for all of this.
func (r *record) arrival(message *nsqd.Message, publisher int64, read reading) *row {
	if r == nil {
		return nil
	}
	if r.used == len(r.rows) {
		r.dropped++
		return nil
	}
	row := &r.rows[r.used]
	r.used++
	row.message, row.publisher, row.stampNs, row.readAtNs = -1, publisher, message.Timestamp, read.readAtNs
	row.arrivedNs = min(message.Timestamp, read.arrivedNs) // of a command of several reads, the first have stamps of their own
	if len(message.Body) >= headerBytes {
		row.message = int64(binary.BigEndian.Uint64(message.Body))
		row.publisher = int64(int32(binary.BigEndian.Uint32(message.Body[8:])))
	}
	return row
}

// writeRows writes rows as little-endian int64, six a row. The file appears when it is whole.
func writeRows(path string, rows []row) (err error) {
	file, err := os.Create(path + ".partial")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path + ".partial")
		}
	}()
	writer := bufio.NewWriterSize(file, 1<<20)
	var cells [48]byte
	for _, r := range rows {
		for i, value := range [...]int64{r.message, r.publisher, r.stampNs, r.arrivedNs, r.readAtNs, r.releasedAtNs} {
			binary.LittleEndian.PutUint64(cells[8*i:], uint64(value))
		}
		_, _ = writer.Write(cells[:]) // Flush returns its error
	}
	if err = writer.Flush(); err != nil {
		_ = file.Close()
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}
