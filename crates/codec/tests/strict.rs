//! The three rules, over all small buffers and all sequences of small fields.

use atrest_codec::{
    Be, Fixed, Le, ReadError, Reader, Record as Sparse, RecordMut, Rows, WriteError, Writer, decode, encode,
    split, split_mut,
};

const BYTES: [u8; 24] = {
    let mut bytes = [0; 24];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = i as u8 + 1;
        i += 1;
    }
    bytes
};

/// A field as a test asks for it.
#[derive(Clone, Copy, Debug)]
enum Op {
    Bytes(usize),
    Array,
    Word,
    Sub(usize),
    Zeros(usize),
}

const OPS: [Op; 9] = [
    Op::Bytes(0),
    Op::Bytes(1),
    Op::Bytes(5),
    Op::Bytes(usize::MAX),
    Op::Array,
    Op::Word,
    Op::Sub(2),
    Op::Zeros(0),
    Op::Zeros(3),
];

impl Op {
    fn len(self) -> usize {
        match self {
            Self::Bytes(len) | Self::Sub(len) | Self::Zeros(len) => len,
            Self::Array => 3,
            Self::Word => 4,
        }
    }
}

/// All sequences of `N` operations.
fn sequences<const N: usize>() -> impl Iterator<Item = [Op; N]> {
    (0..OPS.len().pow(N as u32)).map(|number| {
        let mut number = number;
        [(); N].map(|()| {
            let op = OPS[number % OPS.len()];
            number /= OPS.len();
            op
        })
    })
}

/// The reader against arithmetic on offsets, which is all that a strict reader is.
#[test]
fn a_reader_takes_what_is_there_and_nothing_else() {
    for len in 0..=10 {
        for ops in sequences::<4>() {
            let data = &BYTES[..len];
            let mut reader = Reader::new(data);
            let mut at = 0;
            for op in ops {
                let expected = data.get(at..).and_then(|rest| rest.get(..op.len()));
                let taken: Result<&[u8], ReadError> = match op {
                    Op::Bytes(len) => reader.bytes(len),
                    Op::Array => reader.array_ref::<3>().map(|array| &array[..]),
                    Op::Word => reader.be32().map(|word| {
                        assert_eq!(word.to_be_bytes(), data[at..at + 4]);
                        &data[at..at + 4]
                    }),
                    Op::Sub(len) => reader.sub(len).map(|mut sub| {
                        let all = sub.rest();
                        assert_eq!(sub.bytes(1), Err(ReadError::Short), "a part reads on behind its end");
                        all
                    }),
                    Op::Zeros(len) => match reader.zeros(len) {
                        Ok(()) => Ok(&data[at..at + len]),
                        // No byte of the data is zero.
                        Err(ReadError::NotZero) => {
                            assert!(len > 0 && expected.is_some());
                            assert_eq!(reader.remaining(), data.len() - at);
                            continue;
                        }
                        Err(error) => Err(error),
                    },
                };
                assert_eq!(taken, expected.ok_or(ReadError::Short), "{len} {ops:?}");
                at += taken.map_or(0, <[u8]>::len);
                assert_eq!(reader.remaining(), len - at, "a field that is not there was taken: {ops:?}");
            }
            assert_eq!(reader.finish(), if at == len { Ok(()) } else { Err(ReadError::Trailing) });
            assert_eq!(reader.finish_zeros(), if at == len { Ok(()) } else { Err(ReadError::NotZero) });
        }
    }
}

#[test]
fn a_writer_writes_all_of_a_field_or_nothing() {
    for len in 0..=10 {
        for ops in sequences::<4>() {
            let mut buffer = [0xee; 16];
            let mut expected = [0xee; 16];
            let mut at = 0;
            let mut writer = Writer::new(&mut buffer[..len]);
            for op in ops {
                let (field, result): (Vec<u8>, _) = match op {
                    // A slice of that many bytes can't be made; asking for the place can.
                    Op::Bytes(usize::MAX) => (vec![], writer.place(usize::MAX).map(|_| ())),
                    Op::Bytes(len) | Op::Sub(len) => (BYTES[..len].to_vec(), writer.bytes(&BYTES[..len])),
                    Op::Array => (vec![9, 8, 7], writer.field([9, 8, 7])),
                    Op::Word => (vec![4, 3, 2, 1], writer.le32(0x0102_0304)),
                    Op::Zeros(len) => (vec![0; len], writer.zeros(len)),
                };
                let fits = op.len() <= len - at;
                assert_eq!(result, if fits { Ok(()) } else { Err(WriteError::Full) }, "{len} {ops:?}");
                if fits {
                    expected[at..at + field.len()].copy_from_slice(&field);
                    at += field.len();
                }
                assert_eq!(writer.remaining(), len - at, "{ops:?}");
            }
            let full = writer.finish();
            assert_eq!(full, if at == len { Ok(()) } else { Err(WriteError::Unfilled) });
            assert_eq!(buffer, expected, "{len} {ops:?}");
        }
    }
}

#[test]
fn numbers_have_the_byte_order_that_their_name_says() {
    let mut reader = Reader::new(&BYTES);
    assert_eq!((reader.u8(), reader.le16(), reader.be16()), (Ok(1), Ok(0x0302), Ok(0x0405)));
    assert_eq!((reader.le32(), reader.be32()), (Ok(0x0908_0706), Ok(0x0a0b_0c0d)));
    assert_eq!(reader.le64(), Ok(0x1514_1312_1110_0f0e));
    assert_eq!(reader.be64(), Err(ReadError::Short));
    assert_eq!(reader.rest(), &[22, 23, 24]);
    let mut reader = Reader::at(&BYTES, 16).expect("24 bytes");
    assert_eq!((reader.be64(), reader.finish()), (Ok(0x1112_1314_1516_1718), Ok(())));
    assert_eq!(Reader::at(&BYTES, 24).map(|reader| reader.remaining()), Ok(0));
    assert_eq!(Reader::at(&BYTES, 25).map(|reader| reader.remaining()), Err(ReadError::Short));

    let mut out = [0; 24];
    let mut writer = Writer::new(&mut out);
    writer.u8(1).expect("room");
    writer.le16(0x0302).expect("room");
    writer.be16(0x0405).expect("room");
    writer.le32(0x0908_0706).expect("room");
    writer.be32(0x0a0b_0c0d).expect("room");
    writer.le64(0x1514_1312_1110_0f0e).expect("room");
    assert_eq!(writer.be64(0), Err(WriteError::Full));
    writer.bytes(&[22, 23, 24]).expect("room");
    writer.finish().expect("full");
    assert_eq!(out, BYTES);
}

type Record = ([u8; 2], Le<u16>, Be<u16>, Rows<(Be<u32>, [u8; 1]), 2>, Le<u64>);

#[test]
fn a_record_of_fixed_length_is_its_fields_in_a_row() {
    let (magic, Le(low), Be(high), Rows(rows), Le(last)): Record = decode(&BYTES);
    assert_eq!((magic, low, high), ([1, 2], 0x0403, 0x0506));
    assert_eq!(rows, [(Be(0x0708_090a), [11]), (Be(0x0c0d_0e0f), [16])]);
    assert_eq!(last, 0x1817_1615_1413_1211);
    assert_eq!(encode::<_, 24>((magic, Le(low), Be(high), Rows(rows), Le(last))), BYTES);
    assert_eq!(Record::LEN, 24);
}

/// A group that does not fit leaves reader and writer where they were, although its first fields would fit.
#[test]
fn a_group_of_fields_is_taken_and_written_whole_or_not_at_all() {
    for len in 0..24 {
        let mut reader = Reader::new(&BYTES[..len]);
        assert_eq!(reader.field::<Record>(), Err(ReadError::Short));
        assert_eq!(reader.remaining(), len);
        let mut out = [0xee; 24];
        let mut writer = Writer::new(&mut out[..len]);
        assert_eq!(writer.field(decode::<Record, 24>(&BYTES)), Err(WriteError::Full));
        assert_eq!(writer.remaining(), len);
        assert_eq!(out, [0xee; 24]);
    }
}

#[test]
fn a_record_splits_into_its_parts() {
    let (first, last): (&[u8; 10], &[u8; 14]) = split(&BYTES);
    assert_eq!((&first[..], &last[..]), BYTES.split_at(10));
    let (none, all) = split::<0, 24, 24>(&BYTES);
    assert_eq!((none, all), (&[], &BYTES));
    let mut record = BYTES;
    let (first, last): (&mut [u8; 10], &mut [u8; 14]) = split_mut(&mut record);
    first.fill(1);
    last.fill(2);
    assert_eq!(
        record.map(|byte| byte == 1),
        [(); 24].map({
            let mut i = 0;
            move |()| {
                i += 1;
                i <= 10
            }
        })
    );
}

#[test]
fn padding_is_zeros() {
    let data = [7, 0, 0, 0];
    let mut reader = Reader::new(&data);
    assert_eq!(reader.zeros(2), Err(ReadError::NotZero));
    assert_eq!(reader.finish_zeros(), Err(ReadError::NotZero));
    assert_eq!(reader.u8(), Ok(7));
    assert_eq!(reader.finish_zeros(), Ok(()));
    assert_eq!(reader.zeros(4), Err(ReadError::Short));
    assert_eq!((reader.zeros(3), reader.finish()), (Ok(()), Ok(())));

    let mut out = [0xee; 4];
    let mut writer = Writer::new(&mut out);
    writer.u8(7).expect("room");
    writer.finish_zeros();
    assert_eq!(out, data);
}

#[test]
fn layouts_can_be_read_when_a_constant_is_made() {
    const WORD: Result<u32, ReadError> = {
        let mut reader = Reader::new(&BYTES);
        reader.be32()
    };
    assert_eq!(WORD, Ok(0x0102_0304));
}

#[test]
fn a_field_of_a_record_lies_at_its_offset() {
    let record = Sparse::new(&BYTES);
    assert_eq!(record.bytes(), &BYTES);
    assert_eq!(record.array::<0, 24>(), &BYTES);
    assert_eq!(record.array::<24, 0>(), &[]);
    assert_eq!(record.array::<3, 5>()[..], BYTES[3..8]);
    assert_eq!((record.u8::<0>(), record.u8::<23>()), (1, 24));
    assert_eq!((record.le16::<22>(), record.be16::<22>()), (0x1817, 0x1718));
    assert_eq!((record.le32::<3>(), record.be32::<3>()), (0x0706_0504, 0x0405_0607));
    assert_eq!((record.le64::<16>(), record.be64::<16>()), (0x1817_1615_1413_1211, 0x1112_1314_1516_1718));

    // Each writer writes what its reader reads, and nothing beside it.
    let mut bytes = BYTES;
    let mut record = RecordMut::new(&mut bytes);
    record.set_u8::<0>(0xa0);
    record.set_le16::<1>(0xa2a1);
    record.set_be16::<3>(0xa3a4);
    record.set_le32::<6>(0xa9a8_a7a6);
    record.set_be32::<10>(0xaaab_acad);
    record.set::<14, 2>(&[0xae, 0xaf]);
    record.set_le64::<16>(0xb7b6_b5b4_b3b2_b1b0);
    for (i, byte) in bytes.iter().enumerate() {
        assert_eq!(*byte, if i == 5 { BYTES[5] } else { 0xa0 + i as u8 }, "byte {i}");
    }
    RecordMut::new(&mut bytes).set_be64::<16>(0x1112_1314_1516_1718);
    assert_eq!(bytes[16..], BYTES[16..]);
}
