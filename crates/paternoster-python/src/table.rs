// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table: rows of figures that any consumer of Arrow takes, and that Python can read without one.
//!
//! ```text
//! pyarrow.table(t)   polars.DataFrame(t)   duckdb.sql("from t")   pandas.DataFrame.from_arrow(t)
//!        └──────────── __arrow_c_stream__: PyCapsules, so no Arrow library is needed here
//! t["iops"]   t.rows()   t.to_dict()   pickle
//! ```
//!
//! # Invariants
//! I1  A table does not change.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator};
use arrow_array::{StringArray, StructArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Integer,
    Unsigned,
    Float,
}

impl Kind {
    const NAMES: [(&'static str, Kind); 4] = [
        ("string", Kind::Word),
        ("int64", Kind::Integer),
        ("uint64", Kind::Unsigned),
        ("double", Kind::Float),
    ];

    fn data_type(self) -> DataType {
        match self {
            Kind::Word => DataType::Utf8,
            Kind::Integer => DataType::Int64,
            Kind::Unsigned => DataType::UInt64,
            Kind::Float => DataType::Float64,
        }
    }

    fn of(data_type: &DataType) -> Option<(&'static str, Kind)> {
        Kind::NAMES.into_iter().find(|(_, kind)| kind.data_type() == *data_type)
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    None,
    Word(String),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
}

impl From<&str> for Cell {
    fn from(word: &str) -> Cell {
        Cell::Word(word.to_owned())
    }
}

impl From<u64> for Cell {
    /// A count or a time; columns that consumers may subtract are signed.
    fn from(count: u64) -> Cell {
        Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Cell {
        Cell::Integer(count.into())
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Float(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::None, Into::into)
    }
}

/// Rows under a head.
#[pyclass(frozen, module = "paternoster_io._native")]
#[derive(Debug, Clone)]
pub(crate) struct Table {
    batch: RecordBatch,
}

fn wrong(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The values of one column; `None` for those of another kind than the column's.
fn array(kind: Kind, cells: impl Iterator<Item = Cell>) -> ArrayRef {
    match kind {
        Kind::Word => {
            let words = cells.map(|cell| if let Cell::Word(it) = cell { Some(it) } else { None });
            Arc::new(words.collect::<StringArray>())
        }
        Kind::Integer => {
            let all = cells.map(|cell| if let Cell::Integer(it) = cell { Some(it) } else { None });
            Arc::new(all.collect::<Int64Array>())
        }
        Kind::Unsigned => {
            let all = cells.map(|cell| if let Cell::Unsigned(it) = cell { Some(it) } else { None });
            Arc::new(all.collect::<UInt64Array>())
        }
        Kind::Float => {
            let all = cells.map(|cell| if let Cell::Float(it) = cell { Some(it) } else { None });
            Arc::new(all.collect::<Float64Array>())
        }
    }
}

impl Table {
    /// A table of these columns; missing cells at a row's end are null.
    pub(crate) fn new(head: &[(&str, Kind)], rows: &[Vec<Cell>]) -> Result<Table, ArrowError> {
        let columns = head.iter().enumerate().map(|(place, (_, kind))| {
            let cells = rows.iter().map(|row| row.get(place).cloned().unwrap_or(Cell::None));
            array(*kind, cells)
        });
        Table::of(head.iter().map(|(name, kind)| (*name, *kind)), columns.collect())
    }

    fn of<'a>(
        head: impl Iterator<Item = (&'a str, Kind)>,
        columns: Vec<ArrayRef>,
    ) -> Result<Table, ArrowError> {
        let fields = head.map(|(name, kind)| Field::new(name, kind.data_type(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Table { batch: RecordBatch::try_new(schema, columns)? })
    }

    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(wrong)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

/// A column as a list.
fn list<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    match Kind::of(column.data_type()) {
        Some((_, Kind::Word)) => PyList::new(py, column.as_string::<i32>().iter()),
        Some((_, Kind::Integer)) => PyList::new(py, column.as_primitive::<Int64Type>().iter()),
        Some((_, Kind::Unsigned)) => PyList::new(py, column.as_primitive::<UInt64Type>().iter()),
        Some((_, Kind::Float)) => PyList::new(py, column.as_primitive::<Float64Type>().iter()),
        None => Err(PyRuntimeError::new_err(column.data_type().to_string())),
    }
}

#[pymethods]
impl Table {
    /// A table of columns: name, type (string, int64, uint64, double), values.
    #[staticmethod]
    fn from_columns(columns: Vec<(String, String, Vec<Bound<'_, PyAny>>)>) -> PyResult<Table> {
        let mut arrays = Vec::new();
        let mut head = Vec::new();
        for (name, kind, values) in columns {
            let known = Kind::NAMES.into_iter().find(|(known, _)| *known == kind);
            let Some((_, kind)) = known else {
                let message = format!("column {name}: there is no type `{kind}`");
                return Err(PyValueError::new_err(message));
            };
            let cell = |value: &Bound<'_, PyAny>| match kind {
                _ if value.is_none() => Ok(Cell::None),
                Kind::Word => value.extract().map(Cell::Word),
                Kind::Integer => value.extract().map(Cell::Integer),
                Kind::Unsigned => value.extract().map(Cell::Unsigned),
                Kind::Float => value.extract().map(Cell::Float),
            };
            let cells = values.iter().map(cell).collect::<PyResult<Vec<Cell>>>()?;
            arrays.push(array(kind, cells.into_iter()));
            head.push((name, kind));
        }
        Table::of(head.iter().map(|(name, kind)| (name.as_str(), *kind)), arrays).map_err(wrong)
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.batch.column_by_name(name);
        list(py, column.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?)
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, column) in self.column_names().iter().zip(self.batch.columns()) {
            columns.set_item(name, list(py, column)?)?;
        }
        Ok(columns)
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names: Vec<_> =
            self.column_names().iter().map(|name| PyString::new(py, name)).collect();
        let columns = self.batch.columns().iter().map(|column| list(py, column));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        let rows = PyList::empty(py);
        for place in 0..self.batch.num_rows() {
            let row = PyDict::new(py);
            for (name, column) in names.iter().zip(&columns) {
                row.set_item(name, column.get_item(place)?)?;
            }
            rows.append(row)?;
        }
        Ok(rows)
    }

    fn __eq__(&self, other: &Table) -> bool {
        self.batch == other.batch
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<Table of {} rows: {names}>", self.batch.num_rows())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyList>,))> {
        let columns = PyList::empty(py);
        for (name, column) in self.column_names().iter().zip(self.batch.columns()) {
            let kind = Kind::of(column.data_type()).map_or("", |(kind, _)| kind);
            columns.append((name, kind, list(py, column)?))?;
        }
        Ok((py.get_type::<Table>().getattr("from_columns")?, (columns,)))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A request that a producer need not honour.
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let array = FFI_ArrowArray::new(&StructArray::from(self.batch.clone()).to_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((self.schema_capsule(py)?, array))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.schema_capsule(py)
    }
}
